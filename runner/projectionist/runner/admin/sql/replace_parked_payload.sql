-- Corrected bytes for a parked event; the first hash stays, so that a redelivery is still known as the same event.
update {schema}.parked
set data = $4, edited_hash = $5, problem = null, budget = greatest(coalesce(budget, 0), attempts) + 1,
    due = case when not ordered then clock_timestamp() end
where consumer = $1 and source = $2 and id = $3
