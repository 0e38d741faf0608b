-- Marks a parked event as decided against: its aggregate steps over it when its turn comes.
with before as materialized (
    select cause, type, alike, {schema}.parked_state(ordered, cause, due) as state
    from {schema}.parked where consumer = $1 and source = $2 and id = $3
), marked as (
    update {schema}.parked set discarded = true where consumer = $1 and source = $2 and id = $3
    returning cause, type, alike, {schema}.parked_state(ordered, cause, due) as state
)
insert into {schema}.parked_counts (consumer, cause, type, alike, state, events)
select $1, cause, type, alike, state, -1 from before where exists (select from marked)
union all
select $1, cause, type, alike, state, 1 from marked
