-- Corrected bytes for a parked event; the first hash stays, so that a redelivery is still known as the same event.
with before as materialized (
    select cause, type, alike, {schema}.parked_state(ordered, cause, due) as state
    from {schema}.parked where consumer = $1 and source = $2 and id = $3
), changed as (
    update {schema}.parked
    set data = $4, edited_hash = $5, problem = null, budget = greatest(coalesce(budget, 0), attempts) + 1,
        due = case when not ordered then clock_timestamp() end
    where consumer = $1 and source = $2 and id = $3
    returning cause, type, alike, {schema}.parked_state(ordered, cause, due) as state
)
insert into {schema}.parked_counts (consumer, cause, type, alike, state, events)
select $1, b.cause, b.type, b.alike, s.state, s.n
from before b cross join changed c cross join lateral (values (b.state, -1), (c.state, 1)) s (state, n)
where b.state <> c.state
