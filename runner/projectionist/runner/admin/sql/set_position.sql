-- Sets where an aggregate stands after an action; $6: its head is due at once. The position is locked.
with before as materialized (
    select head, parked from {schema}.positions where consumer = $1 and aggregate = $2
), moved as (
    update {schema}.positions
    set version = $3, head = $4, parked = $5, finding = null, due = case when $6 then clock_timestamp() end
    where consumer = $1 and aggregate = $2
    returning head, parked
)
insert into {schema}.held_counts (consumer, head, aggregates, events)
select $1, head, -1, -parked from before where head <> 'clear' and exists (select from moved)
union all
select $1, head, 1, parked from moved where head <> 'clear'
