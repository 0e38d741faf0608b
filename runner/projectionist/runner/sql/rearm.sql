-- Heads that wait because older code failed on them are due again; at most $3 of them.
update {schema}.positions
set head = 'failed', due = clock_timestamp()
where consumer = $1 and aggregate in (
    select p.aggregate from {schema}.positions p
    join {schema}.parked e on e.consumer = p.consumer and e.aggregate = p.aggregate and e.ordered and e.cause = 'failed'
    where p.consumer = $1 and p.head = 'waiting' and p.finding is null and e.code is distinct from $2
    order by e.last_failed limit $3
)
returning aggregate
