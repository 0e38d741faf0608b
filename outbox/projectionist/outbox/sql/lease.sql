-- Leases heads of one provider's lanes after the lane $2, and says how far it looked. The walk jumps from lane to lane.
with recursive walk (seq, lane, able, found, steps) as (
    select null::bigint, $2::text collate "C", false, 0, 0
    union all
    select head.seq, head.lane, head.able, walk.found + head.able::integer, walk.steps + 1
    from walk
    cross join lateral (
        select i.seq, coalesce(i.ordering, i.key) as lane,
            i.state in ('ready', 'leased', 'started', 'unknown')
            and coalesce(i.due <= clock_timestamp(), true)
            and (i.state = 'ready' or coalesce(i.lease_until <= clock_timestamp(), true))
            and (i.state = 'started' or i.destination <> all ($7::text[]) and not exists (
                select from {schema}.breakers b
                where b.provider = $1 and b.destination = i.destination
                    and (b.held is not null or (b.state <> 'closed' and b.until > clock_timestamp()))
            )) as able
        from {schema}.intents i
        where i.open and i.provider = $1 and coalesce(i.ordering, i.key) > walk.lane
        order by coalesce(i.ordering, i.key), coalesce(i.place, i.seq)
        limit 1
    ) as head
    where walk.found < $3 and walk.steps < $4
),
free as (
    select i.seq from {schema}.intents i
    where i.seq = any (array(select seq from walk where able)) and i.open
        and i.state in ('ready', 'leased', 'started', 'unknown')
        and coalesce(i.due <= clock_timestamp(), true)
        and (i.state = 'ready' or coalesce(i.lease_until <= clock_timestamp(), true))
    for update skip locked
),
leased as (
    update {schema}.intents i
    set state = case when i.state in ('started', 'unknown') then 'unknown' else 'leased' end,
        token = $5, lease_until = clock_timestamp() + make_interval(secs => $6)
    where i.seq = any (array(select seq from free))
    returning i.*
)
select stop.lane, stop.steps, stop.found, extract(epoch from clock_timestamp())::float8 as now,
    l.seq, l.key, l.source, l.id, l.aggregate, l.version, l.slot, l.class, l.destination, l.on_dead, l.body, l.hash,
    l.wire, l.wire_hash, l.mark, l.traceparent, l.tracestate, l.state, l.created, l.attempt, l.spent,
    extract(epoch from clock_timestamp() - l.first_started)::float8 as since_first_s,
    b.state as circuit, b.epoch, b.failures, b.openings, extract(epoch from b.until)::float8 as until
from (select max(lane) as lane, max(steps) as steps, max(found) as found from walk) as stop
left join leased l on true
left join {schema}.breakers b on b.provider = $1 and b.destination = l.destination
order by l.seq
