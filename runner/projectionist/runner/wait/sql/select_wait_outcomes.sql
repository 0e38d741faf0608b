-- How what is waited for stands: by version of an aggregate, by identity, by stream sequence, as far as each is known. Without
-- $11 only what can be answered. A position answers for a version; where the event is known, only its own row answers for it:
-- another event may hold its version, and where its content is known ($9, $10), another one may bear its identity. What bears
-- it after somebody has released it from quarantine is the event, in other words.
select w.n, w.version as wanted, w.id is not null as named, p.version, p.head, p.finding, i.state, coalesce(i.taken, false) as taken, q.reason as aside, q.detail,
    e.version as held_at, coalesce(e.error_class, u.error_class) as error_class, coalesce(e.error, u.error) as error,
    u.cause as alone, coalesce(e.due, u.due) is not null or p.head = 'failed' as again,
    w.seq <= f.purged and i.state is null and i.taken is null as forgotten,
    i.state is null and i.taken is null and exists (
        select from {schema}.decisions d
        where d.consumer = w.consumer and d.aggregate = w.aggregate and d.kind in ('skip', 'accept_gap', 'discard', 'baseline')
            and w.version between d.version and coalesce(d.upto, d.version)
    ) as stepped_over,
    o.source as rival_source, o.id as rival
from unnest(
    $1::integer[], $2::integer[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::integer[], $8::bigint[],
    $9::bytea[], $10::bytea[]
) as w (n, consumer, aggregate, version, source, id, incarnation, seq, hash, canonical)
left join {schema}.positions p on p.consumer = w.consumer and p.aggregate = w.aggregate
left join lateral (
    select case when not taken then state end as state, taken
    from (
        select state, w.hash is not null and hash not in (w.hash, w.canonical) and not exists (
            select from {schema}.quarantine
            where consumer = w.consumer and source = w.source and id = w.id and state = 'released'
        ) as taken
        from {schema}.inbox
        where w.id is not null and consumer = w.consumer and source = w.source and id = w.id
    ) as same_identity
    union all
    select state, false from {schema}.inbox
    where w.id is null and consumer = w.consumer and aggregate = w.aggregate and version = w.version
        and state <> 'quarantined'
    limit 1
) i on true
left join lateral (
    select source, id from {schema}.inbox
    where w.id is not null and i.state is null and i.taken is null and consumer = w.consumer and aggregate = w.aggregate and version = w.version
        and (source, id) <> (w.source, w.id) and state <> 'quarantined'
    limit 1
) o on true
left join lateral (
    select version, error_class, error, due from {schema}.parked
    where consumer = w.consumer and aggregate = w.aggregate and ordered
    order by cause = 'failed' desc, version limit 1
) e on p.head in ('failed', 'waiting')
left join {schema}.parked u on u.consumer = w.consumer and u.source = w.source and u.id = w.id and not u.ordered
left join lateral (
    select reason, detail from {schema}.quarantine
    where consumer = w.consumer and incarnation = w.incarnation and seq = w.seq and state = 'quarantined'
    union all
    select reason, detail from {schema}.quarantine
    where i.taken and consumer = w.consumer and source = w.source and id = w.id and state = 'quarantined'
    limit 1
) q on true
left join lateral (
    select max(purged) as purged from {schema}.floors where w.seq is not null and consumer = w.consumer
        and incarnation = w.incarnation
) f on true
where $11::boolean or i.state <> 'parked' or p.version >= w.version or p.head in ('failed', 'waiting')
    or u.cause = 'failed' or q.reason is not null or w.seq <= f.purged
