-- Leases heads of one provider's lanes after the lane $2, and says how far it looked. The walk jumps from lane to lane. Heads
-- for other destinations than the crowd $8 come first: for them it looks at $9 lanes, though there were enough of the crowd,
-- which gets nothing unless $10. A pause of which more is left than it was meant to last was written by a clock that has gone
-- back since, and counts for nothing.
with recursive walk (seq, lane, able, other, found, others, steps) as (
    select null::bigint, $2::text collate "C", false, false, 0, 0, 0
    union all
    select head.seq, head.lane, head.able, head.other, walk.found + head.able::integer,
        walk.others + (head.able and head.other)::integer, walk.steps + 1
    from walk
    cross join lateral (
        select o.seq, o.lane,
            o.state in ('ready', 'leased', 'started', 'unknown')
            and coalesce(o.due <= clock_timestamp(), true)
            and (o.state = 'ready' or coalesce(o.lease_until <= clock_timestamp(), true))
            and (o.state = 'started' or o.destination <> all ($7::text[]) and not exists (
                select from {schema}.circuits b
                where b.provider = $1 and b.destination = o.destination
                    and (b.held is not null or (b.state <> 'closed' and b.until > clock_timestamp()
                        and b.until <= clock_timestamp() + make_interval(secs => b.pause_s)))
            )) as able,
            o.destination <> all ($8::text[]) as other
        from {schema}.outbox o
        where o.open and o.provider = $1 and o.lane > walk.lane
        order by o.lane, o.place
        limit 1
    ) as head
    where walk.others < $3 and walk.steps < $4 and (walk.found < $3 or walk.steps < $9)
),
free as (
    select o.seq, o.state <> 'ready' and o.lease_until is not null as lapsed from {schema}.outbox o
    where o.seq = any (array(select seq from walk where able and (other or $10) order by other desc, steps limit $3)) and o.open
        and o.state in ('ready', 'leased', 'started', 'unknown')
        and coalesce(o.due <= clock_timestamp(), true)
        and (o.state = 'ready' or coalesce(o.lease_until <= clock_timestamp(), true))
    for update skip locked
),
-- An intent from before a failover may have been sent, at the soonest when it was written, until it was leased once after.
leased as (
    update {schema}.outbox o
    set state = case when o.state in ('started', 'unknown')
            or (o.seq <= t.doubted and o.epoch is distinct from t.epoch) then 'unknown' else 'leased' end,
        first_started = case when o.seq <= t.doubted and o.epoch is distinct from t.epoch
            then coalesce(o.first_started, (select i.created from {schema}.intents i where i.seq = o.seq))
            else o.first_started end,
        epoch = t.epoch,
        token = $5, lease_until = clock_timestamp() + make_interval(secs => $6)
    from (
        select max(epoch) as epoch, coalesce(max(doubted), 0) as doubted from {schema}.relay_owner where one
    ) as t
    where o.seq = any (array(select seq from free))
    returning o.*
)
select stop.lane, stop.steps, stop.found, stop.others, extract(epoch from clock_timestamp())::float8 as now,
    o.seq, o.destination, o.state, o.attempt, o.spent, o.lookup_hint, o.wire, o.wire_hash, o.first_started, o.doubted,
    extract(epoch from clock_timestamp() - o.first_started)::float8 as since_first_s,
    i.key, i.consumer, i.source, i.id, i.aggregate, i.version, i.slot, i.class, i.on_dead, i.body, i.created, i.traceparent,
    case when i.scheduled > i.created then least(i.scheduled, clock_timestamp()) end as due,
    i.tracestate, i.baggage,
    o.seq = any (array(select seq from free where lapsed)) as lapsed,
    b.state as circuit, b.epoch, b.failures, b.openings, extract(epoch from b.until)::float8 as until, b.pause_s
from (
    select max(lane) as lane, max(steps) as steps, max(found) as found, max(others) as others from walk
) as stop
left join leased o on true
left join {schema}.intents i on i.seq = o.seq
left join {schema}.circuits b on b.provider = $1 and b.destination = o.destination
order by o.seq
