-- The same for events without order.
update {schema}.parked
set due = clock_timestamp()
where consumer = $1 and (source, id) in (
    select source, id from {schema}.parked
    where consumer = $1 and not ordered and cause = 'failed' and due is null and code is distinct from $2
    order by last_failed limit $3
)
returning source, id
