-- One more try for a parked event, beyond its budget where that is spent; at once where it waits alone. Bytes that could
-- not be had are asked for again.
update {schema}.parked
set budget = greatest(coalesce(budget, 0), attempts) + 1, due = case when not ordered then clock_timestamp() end,
    problem = case when data is not null then problem end
where consumer = $1 and source = $2 and id = $3
