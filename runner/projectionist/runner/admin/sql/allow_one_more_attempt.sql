-- One more try for a parked event, beyond its budget where that is spent; at once where it waits alone. Bytes that could
-- not be had are asked for again.
with before as materialized (
    select cause, type, alike, {schema}.parked_state(ordered, cause, due) as state
    from {schema}.parked where consumer = $1 and source = $2 and id = $3
), changed as (
    update {schema}.parked
    set budget = greatest(coalesce(budget, 0), attempts) + 1, due = case when not ordered then clock_timestamp() end,
        problem = case when data is not null then problem end
    where consumer = $1 and source = $2 and id = $3
    returning cause, type, alike, {schema}.parked_state(ordered, cause, due) as state
)
insert into {schema}.parked_counts (consumer, cause, type, alike, state, events)
select $1, b.cause, b.type, b.alike, s.state, s.n
from before b cross join changed c cross join lateral (values (b.state, -1), (c.state, 1)) s (state, n)
where b.state <> c.state
