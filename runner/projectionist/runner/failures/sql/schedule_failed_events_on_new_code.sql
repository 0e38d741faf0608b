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
), due as (
    update {schema}.parked p set due = clock_timestamp()
    from locked where p.consumer = $1 and p.source = locked.source and p.id = locked.id
    returning p.source, p.id, p.cause, p.type, p.alike
), counted as (
    insert into {schema}.parked_counts (consumer, cause, type, alike, state, events)
    select $1, cause, type, alike, state, n * count(*)
    from due cross join (values ('waiting', -1), ('failed', 1)) s (state, n)
    group by cause, type, alike, state, n
)
select source, id from due
