-- What telemetry tells of every consumer beside its status; bounded reads of what waits, never of what is settled.
select c.name, c.stream, c.durable,
    coalesce((select jsonb_object_agg(head, n) from (
        select head, sum(parked)::bigint as n from {schema}.positions
        where consumer = c.number and head <> 'clear' group by head
    ) behind), '{}') as parked,
    (select count(*) from {schema}.parked where consumer = c.number and not ordered) as unordered,
    coalesce((select jsonb_object_agg(head, oldest_s) from (
        select p.head, extract(epoch from clock_timestamp() - min(first.parked_at))::float8 as oldest_s
        from (
            select aggregate, head from {schema}.positions where consumer = c.number and head <> 'clear' limit 5000
        ) p
        cross join lateral (
            select e.parked_at from {schema}.parked e
            where e.consumer = c.number and e.aggregate = p.aggregate and e.ordered order by e.version limit 1
        ) first
        group by p.head
    ) waiting), '{}') as ages,
    coalesce((select jsonb_object_agg(finding, n) from (
        select coalesce(finding, 'open') as finding, count(*) as n
        from {schema}.positions where consumer = c.number and head = 'gap' group by 1
    ) missing), '{}') as gaps,
    coalesce((select jsonb_object_agg(reason, n) from (
        select reason, count(*) as n from {schema}.quarantine
        where consumer = c.number and state = 'quarantined' group by reason
    ) aside), '{}') as quarantine,
    coalesce((select jsonb_object_agg(kind, n) from (
        select kind, count(*) as n from {schema}.incidents where consumer = c.number and closed is null group by kind
    ) told), '{}') as incidents,
    coalesce((select max(f.top - f.floor) from {schema}.floors f where f.consumer = c.number), 0)::bigint as unread,
    (select jsonb_build_object(
            'phase', b.phase, 'age_s', extract(epoch from clock_timestamp() - b.started)::float8,
            'share', cardinality(b.finished)::float8 / greatest(b.buckets, 1)
        ) from {schema}.builds b where b.number = c.build) as build,
    case when exists (select from {schema}.counters k where k.consumer = c.number and k.outcome = 'intents') then (
        select count(*) from {schema}.audit a
        where a.verb = 'replay' and starts_with(a.object, c.name || ': ') and a.at > clock_timestamp() - interval '1 hour'
    ) else 0 end as replays
from {schema}.consumers c
order by c.name
