-- Heads on which other code failed are due again, at most $3 of them; locked in the order in which batches lock.
with chosen as (
    select p.aggregate from {schema}.positions p
    join {schema}.parked e on e.consumer = p.consumer and e.aggregate = p.aggregate and e.ordered and e.cause = 'failed'
        and e.data is not null
    where p.consumer = $1 and p.head in ('waiting', 'failed') and p.finding is null and e.code is distinct from $2
    order by e.last_failed limit $3
), locked as (
    select aggregate, head from {schema}.positions
    where consumer = $1 and aggregate in (select aggregate from chosen) and head in ('waiting', 'failed')
    order by aggregate
    for update
), due as (
    update {schema}.positions p set head = 'failed', due = clock_timestamp()
    from locked where p.consumer = $1 and p.aggregate = locked.aggregate
    returning p.aggregate, p.parked, locked.head as before
), counted as (
    insert into {schema}.held_counts (consumer, head, aggregates, events)
    select $1, s.head, s.n * count(*), s.n * sum(due.parked)
    from due cross join (values ('waiting', -1), ('failed', 1)) s (head, n)
    where due.before = 'waiting'
    group by s.head, s.n
)
select aggregate from due
