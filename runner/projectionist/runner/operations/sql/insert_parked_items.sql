-- Takes down what parked events an operation is about ($1; at most $4), group by group of what is alike; the number of them.
-- $2: at which place within its group each further sample begins; empty: what is done is not tried by others, and not judged.
-- $3: those alone that their aggregate waits for and that are not due yet, as in select_parked, and its filters.
with chosen as (
    select consumer, source, id, ordered, aggregate, coalesce(position, 0) as version, attempts,
        cause = 'failed' and cardinality($2::bigint[]) > 0 as judged, why, row_number() over (order by incarnation, seq, name) as n
    from {schema}.parked_seen
    where ($5::text is null or name = $5) and ($6::text is null or cause = $6) and ($7::text is null or type = $7)
        and ($8::text is null or aggregate = $8)
        and ($9::text is null or $9 in (why, own, alike))
        and ($10::float8 is null or parked_at < clock_timestamp() - $10 * interval '1 second')
        and ($11::text[] is null or id = any ($11)) and ($12::text is null or source = $12)
        and (not $3 or heads and (next_try is null or next_try > clock_timestamp()))
    order by n
    limit $4
),
grouped as (
    select *, min(n) over alike as first, row_number() over (alike order by n) as within
    from chosen window alike as (partition by consumer, judged, why)
),
inserted as (
    insert into {schema}.operation_items
        (operation, place, alike, sample, judged, consumer, source, id, aggregate, version, attempts)
    select $1, row_number() over (order by first, n), dense_rank() over (order by first), width_bucket(within, $2::bigint[]), judged,
        consumer, source, id, case when ordered then aggregate end, version, attempts
    from grouped
    returning place, alike, sample, consumer, judged
),
sampled as (
    insert into {schema}.operation_samples (operation, alike, sample, consumer, judged, first, items)
    select $1, alike, sample, consumer, judged, min(place), count(*) from inserted group by alike, sample, consumer, judged
    returning items
)
update {schema}.operations set matched = (select coalesce(sum(items), 0) from sampled) where number = $1
returning matched
