-- A parked entry was tried and failed once more: perhaps of something else, and so of another group.
with before as materialized (
    select cause, type, alike, {schema}.parked_state(ordered, cause, due) as state
    from {schema}.parked where consumer = $1 and source = $2 and id = $3
), failed as (
    update {schema}.parked
    set cause = 'failed', attempts = $4, budget = $5, due = clock.now + $6::float8 * interval '1 second',
        error_class = $7, error = $8, stack = $9, code = $10, view = $11,
        first_failed = coalesce(first_failed, clock.now), last_failed = clock.now
    from clock_timestamp() as clock (now)
    where consumer = $1 and source = $2 and id = $3
    returning cause, type, alike, {schema}.parked_state(ordered, cause, due) as state
)
insert into {schema}.parked_counts (consumer, cause, type, alike, state, events)
select $1, cause, type, alike, state, sum(n) from (
    select cause, type, alike, state, -1 as n from before where exists (select from failed)
    union all
    select cause, type, alike, state, 1 from failed
) changed
group by cause, type, alike, state having sum(n) <> 0
