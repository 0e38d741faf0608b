-- Heads on which other code failed are due again, at most $3 of them; locked in the order in which batches lock.
with chosen as (
    select p.aggregate from {schema}.positions p
    join {schema}.parked e on e.consumer = p.consumer and e.aggregate = p.aggregate and e.ordered and e.cause = 'failed'
        and e.data is not null
    where p.consumer = $1 and p.head in ('waiting', 'failed') and p.finding is null and e.code is distinct from $2
    order by e.last_failed limit $3
), locked as (
    select aggregate from {schema}.positions
    where consumer = $1 and aggregate in (select aggregate from chosen) and head in ('waiting', 'failed')
    order by aggregate
    for update
)
update {schema}.positions p set head = 'failed', due = clock_timestamp()
from locked where p.consumer = $1 and p.aggregate = locked.aggregate
returning p.aggregate
