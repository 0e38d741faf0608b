-- Takes down what intents an operation is about ($1; at most $4), group by group of what is alike; the number of them.
-- $2: at which place within its group each further sample begins; empty: what is done takes effect at once, and is not judged.
-- $3: those alone that are not being sent at this moment; the filters are those of select_intents.
with chosen as (
    select i.seq, i.consumer, i.source, i.id, i.aggregate, i.provider, coalesce(o.attempt, i.attempt) as attempt,
        coalesce(o.error, i.error) as error, coalesce(o.state, case i.state when 'open' then 'scheduled' else i.state end) as state,
        case when o.state = 'ready' and b.held is not null then 'held' else coalesce(o.state, case i.state when 'open' then 'scheduled' else i.state end) end as shown
    from {schema}.intents i
    left join {schema}.outbox o on o.seq = i.seq
    left join {schema}.circuits b on b.provider = o.provider and b.destination = o.destination
    left join {schema}.consumers c on c.number = i.consumer
    where (
            coalesce($5::text[] && '{sent,discarded,cancelled}'::text[], false)
            or i.seq = any (array(
                select seq from {schema}.outbox union all
                select intent from {schema}.schedule where look is not null and promoted is null
            ))
        )
        and ($6::text is null or i.provider = $6)
        and ($7::text is null or $7 in (i.destination, left(encode(sha256(convert_to(i.destination, 'UTF8')), 'hex'), 8)))
        and ($8::text is null or i.class = $8) and ($9::text is null or c.name = $9)
        and ($10::text is null or $10 in (o.error, left(encode(sha256(convert_to(o.error, 'UTF8')), 'hex'), 8)))
        and ($11::float8 is null or i.created < clock_timestamp() - make_interval(secs => $11))
),
taken as (
    select *, row_number() over (order by seq) as n from chosen
    where ($5 is null or shown = any ($5)) and (not $3 or state not in ('leased', 'started'))
    order by n
    limit $4
),
grouped as (
    select *, min(n) over alike as first, row_number() over (alike order by n) as within
    from taken window alike as (partition by provider, shown, error)
),
inserted as (
    insert into {schema}.operation_items
        (operation, place, alike, sample, judged, consumer, source, id, aggregate, intent, seen, version, attempts)
    select $1, row_number() over (order by first, n), dense_rank() over (order by first), width_bucket(within, $2::bigint[]),
        cardinality($2::bigint[]) > 0, consumer, source, id, aggregate, seq, state, 0, attempt
    from grouped
    returning place, alike, sample, consumer, judged
),
sampled as (
    insert into {schema}.operation_samples (operation, alike, sample, consumer, judged, first, items)
    select $1, alike, sample, min(consumer), bool_or(judged), min(place), count(*) from inserted group by alike, sample
    returning items
)
update {schema}.operations set matched = (select coalesce(sum(items), 0) from sampled) where number = $1
returning matched
