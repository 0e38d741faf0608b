-- One row a consumer: where it stands, from counts that are kept beside what they count. Without order an event stands for itself.
-- $1: add up counters too, which are many rows: one for each type, hour and process. `rate`: applied a second within a minute. What is
-- small is read once for all consumers; what is large (inbox, minutes, quarantine) by an index for each.
with now as materialized (
    select minute, extract(minute from minute at time zone 'UTC')::smallint as place, extract(epoch from at - minute) / 60 as share
    from clock_timestamp() as at cross join lateral date_trunc('minute', at, 'UTC') as minute
), held as materialized (
    select consumer, jsonb_object_agg(head, aggregates) filter (where aggregates <> 0) as heads, sum(events)::bigint as parked,
        sum(events) filter (where head = 'draining')::bigint as backlog
    from (
        select consumer, head, sum(aggregates)::bigint as aggregates, sum(events) as events
        from (
            select consumer, head, aggregates, events from {schema}.held_counts
            union all
            select consumer, state, events, events from {schema}.parked_counts where state is not null
        ) counted
        group by consumer, head
    ) each
    group by consumer
), counted as materialized (
    select consumer, jsonb_object_agg(outcome, n) as outcomes
    from (
        select consumer, outcome, sum(n)::bigint as n from {schema}.counters where $1 group by consumer, outcome
    ) each
    group by consumer
), open as materialized (
    select consumer, count(*) as incidents from {schema}.incidents where closed is null group by consumer
), running as materialized (
    select consumer, jsonb_agg(jsonb_build_object(
        'host', host, 'pid', pid, 'state', state, 'p50_ms', p50_ms, 'p99_ms', p99_ms, 'lag', lag, 'unacked', unacked,
        'headers', headers,
        'silent_s', extract(epoch from clock_timestamp() - beat)::float8
    ) order by number) as runners
    from {schema}.runners
    where stopped is null and beat > clock_timestamp() - interval '1 minute'
    group by consumer
), seen as materialized (
    select consumer, count(*) = 1 as alone, min(name) as name, array_agg(kind) as kinds,
        array_agg(generation) as generations, array_agg(revision) as revisions, array_agg(effects_mark) as marks,
        jsonb_agg(jsonb_build_object(
            'name', name, 'kind', kind, 'state', state, 'generation', generation, 'revision', revision,
            'effects_mark', effects_mark
        ) order by number) as views
    from {schema}.views
    group by consumer
)
-- Of a set each of its views says it.
select c.name, case when v.alone then s.kinds[1] else 'set' end as kind, c.stream, c.paused,
    case when v.alone then s.generations[1] end as generation,
    case when v.alone then s.revisions[1] end as revision,
    case when v.alone then s.marks[1] end as effects_mark,
    case when v.alone then '[]' else coalesce(s.views, '[]') end as views,
    coalesce(counted.outcomes, '{}') as outcomes,
    (select sum(m.applied * case when m.minute = now.minute then 1 else 1 - now.share end)::float8 / 60
        from {schema}.minute_counts m
        where m.consumer = c.number and m.place in (now.place, (now.place + 59) % 60)
            and m.minute in (now.minute, now.minute - interval '1 minute')) as rate,
    coalesce(held.heads, '{}') as heads,
    coalesce(held.parked, 0) as parked,
    (select extract(epoch from clock_timestamp() - min(received))::float8
        from {schema}.inbox where consumer = c.number and state = 'parked') as oldest_s,
    (select count(*) from {schema}.quarantine where consumer = c.number and state = 'quarantined') as quarantined,
    coalesce(open.incidents, 0) as incidents,
    coalesce(running.runners, '[]') as runners,
    coalesce(held.backlog, 0) as backlog,
    (select jsonb_build_object('who', who, 'reason', reason, 'since', at)
        from {schema}.audit where c.paused and object = c.name || ': ' || c.name and action = 'pause'
        order by number desc limit 1) as pause,
    (select jsonb_build_object(
            'state', state, 'reason', reason, 'until_s', extract(epoch from until - clock_timestamp())::float8
        ) from {schema}.consumer_breakers where consumer = c.number and state <> 'closed') as breaker
from {schema}.consumers c
cross join now
left join seen s on s.consumer = c.number
cross join lateral (select coalesce(s.alone and s.name = c.name, false) as alone) v
left join held on held.consumer = c.number
left join counted on counted.consumer = c.number
left join open on open.consumer = c.number
left join running on running.consumer = c.number
order by c.name
