-- The same for events without order.
with chosen as (
    select source, id from {schema}.parked
    where consumer = $1 and not ordered and cause = 'failed' and due is null and code is distinct from $2
    order by last_failed limit $3
), locked as (
    select source, id from {schema}.parked
    where consumer = $1 and (source, id) in (select source, id from chosen) and due is null
    order by source, id
    for update
)
update {schema}.parked p set due = clock_timestamp()
from locked where p.consumer = $1 and p.source = locked.source and p.id = locked.id
returning p.source, p.id
