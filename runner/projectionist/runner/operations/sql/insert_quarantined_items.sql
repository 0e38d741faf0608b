-- Takes down what entries of quarantine an operation is about ($1; at most $4), group by group of what is alike; the number of them.
-- $2: at which place within its group each further sample begins; empty: what is done takes effect at once, and is not judged.
-- $3: those alone that are not asked to be read again already, as in select_quarantine, and its filters.
with chosen as (
    select consumer, incarnation, seq, source, id, attempts, cause, why,
        row_number() over (order by received, name, incarnation, seq) as n
    from {schema}.quarantine_seen
    where state = 'quarantined' and ($5::text is null or name = $5) and ($6::text is null or cause = $6)
        and ($7::text is null or $7 in (why, own, left(encode(sha256(convert_to(why, 'UTF8')), 'hex'), 8)))
        and ($8::float8 is null or received < clock_timestamp() - $8 * interval '1 second') and (not $3 or due is null)
    order by n
    limit $4
),
grouped as (
    select *, min(n) over alike as first, row_number() over (alike order by n) as within
    from chosen window alike as (partition by consumer, cause, why)
),
inserted as (
    insert into {schema}.operation_items
        (operation, place, alike, sample, judged, consumer, source, id, incarnation, seq, version, attempts)
    select $1, row_number() over (order by first, n), dense_rank() over (order by first), width_bucket(within, $2::bigint[]),
        cardinality($2::bigint[]) > 0, consumer, source, id, incarnation, seq, 0, attempts
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
