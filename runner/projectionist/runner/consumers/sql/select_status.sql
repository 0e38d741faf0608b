-- One row a consumer: where it stands, from counts that are kept beside what they count. Without order an event stands for itself.
-- $1: add up counters too, which are many rows: one for each type, hour and process. `rate`: applied a second within a minute.
with held as materialized (
    select consumer, head, aggregates, events from {schema}.held_counts
    union all
    select consumer, state, events, events from {schema}.parked_counts where state is not null
), now as materialized (
    select minute, extract(minute from minute at time zone 'UTC')::smallint as place, extract(epoch from at - minute) / 60 as share
    from clock_timestamp() as at cross join lateral date_trunc('minute', at, 'UTC') as minute
)
select c.name, v.kind, c.stream, c.paused, v.generation, v.revision, v.effects_mark, v.views,
    case when $1 then coalesce((select jsonb_object_agg(outcome, n) from (
        select outcome, sum(n)::bigint as n from {schema}.counters where consumer = c.number group by outcome
    ) counted), '{}') else '{}' end as outcomes,
    (select sum(m.applied * case when m.minute = now.minute then 1 else 1 - now.share end)::float8 / 60
        from {schema}.minute_counts m
        where m.consumer = c.number and m.place in (now.place, (now.place + 59) % 60)
            and m.minute in (now.minute, now.minute - interval '1 minute')) as rate,
    coalesce((select jsonb_object_agg(head, aggregates) from (
        select head, sum(aggregates)::bigint as aggregates from held where consumer = c.number group by head having sum(aggregates) <> 0
    ) states), '{}') as heads,
    coalesce((select sum(events) from held where consumer = c.number), 0)::bigint as parked,
    (select extract(epoch from clock_timestamp() - min(received))::float8
        from {schema}.inbox where consumer = c.number and state = 'parked') as oldest_s,
    (select count(*) from {schema}.quarantine where consumer = c.number and state = 'quarantined') as quarantined,
    (select count(*) from {schema}.incidents where consumer = c.number and closed is null) as incidents,
    coalesce((select jsonb_agg(jsonb_build_object(
            'host', host, 'pid', pid, 'state', state, 'p50_ms', p50_ms, 'p99_ms', p99_ms, 'lag', lag, 'unacked', unacked,
            'headers', headers,
            'silent_s', extract(epoch from clock_timestamp() - beat)::float8
        ) order by number)
        from {schema}.runners where consumer = c.number and stopped is null and beat > clock_timestamp() - interval '1 minute'
    ), '[]') as runners,
    coalesce((select sum(events) from held where consumer = c.number and head = 'draining'), 0)::bigint as backlog,
    (select jsonb_build_object('who', who, 'reason', reason, 'since', at)
        from {schema}.audit where c.paused and object = c.name || ': ' || c.name and action = 'pause'
        order by number desc limit 1) as pause,
    (select jsonb_build_object(
            'state', state, 'reason', reason, 'until_s', extract(epoch from until - clock_timestamp())::float8
        ) from {schema}.consumer_breakers where consumer = c.number and state <> 'closed') as breaker
from {schema}.consumers c
cross join now
join lateral (
    -- Of a set each of its views says it.
    select case when s.alone then s.kinds[1] else 'set' end as kind,
        case when s.alone then s.generations[1] end as generation,
        case when s.alone then s.revisions[1] end as revision,
        case when s.alone then s.marks[1] end as effects_mark,
        case when s.alone then '[]' else s.views end as views
    from (
        select count(*) = 1 and min(name) = c.name as alone, array_agg(kind) as kinds,
            array_agg(generation) as generations, array_agg(revision) as revisions, array_agg(effects_mark) as marks,
            coalesce(jsonb_agg(jsonb_build_object(
                'name', name, 'kind', kind, 'state', state, 'generation', generation, 'revision', revision,
                'effects_mark', effects_mark
            ) order by number), '[]') as views
        from {schema}.views
        where consumer = c.number
    ) s
) v on true
order by c.name
