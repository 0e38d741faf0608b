-- Missing versions will not come by themselves: the head waits, unless it has moved since they were looked for.
with waits as (
    update {schema}.positions set head = 'waiting', finding = $4, due = null
    where consumer = $1 and aggregate = $2 and version = $3 and head = 'gap'
    returning parked
), counted as (
    insert into {schema}.held_counts (consumer, head, aggregates, events)
    select $1, s.head, s.n, s.n * waits.parked
    from waits cross join (values ('gap', -1), ('waiting', 1)) s (head, n)
)
select parked from waits
