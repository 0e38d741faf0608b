-- What telemetry tells of every consumer beside its status; bounded reads of what waits, never of what is settled. $1: rows of
-- one kind that are counted at most.
select c.name, c.stream, c.durable,
    -- Behind heads from the positions' own counters: the first behind one that failed has failed, the rest is blocked.
    coalesce((select jsonb_object_agg(cause, n) from (
        select cause, sum(n)::bigint as n from (
            select case
                    when head = 'draining' then 'stored' when finding is not null or head = 'gap' then 'gap' else 'failed'
                end as cause,
                sum(case when head = 'draining' or finding is not null or head = 'gap' then parked else least(parked, 1) end) as n
            from {schema}.positions where consumer = c.number and head <> 'clear' group by 1
            union all
            select 'blocked', sum(parked - 1) from {schema}.positions
            where consumer = c.number and head in ('failed', 'waiting') and finding is null and parked > 1
            union all
            select cause, count(*) from (
                select cause from {schema}.parked where consumer = c.number and not ordered limit $1
            ) few group by cause
        ) counted group by cause having sum(n) > 0
    ) behind), '{}') as parked,
    coalesce((select jsonb_object_agg(head, oldest_s) from (select head, max(oldest_s) as oldest_s from (
        select p.head, extract(epoch from clock_timestamp() - min(first.parked_at))::float8 as oldest_s
        from (
            select aggregate, head from {schema}.positions where consumer = c.number and head <> 'clear' limit 5000
        ) p
        cross join lateral (
            select e.parked_at from {schema}.parked e
            where e.consumer = c.number and e.aggregate = p.aggregate and e.ordered order by e.version limit 1
        ) first
        group by p.head
        union all
        select case when cause = 'stored' then 'draining' when due is null then 'waiting' else 'failed' end,
            extract(epoch from clock_timestamp() - min(parked_at))::float8
        from (select cause, due, parked_at from {schema}.parked where consumer = c.number and not ordered limit $1) few
        group by 1
    ) each group by head) waiting), '{}') as ages,
    coalesce((select jsonb_object_agg(finding, n) from (
        select coalesce(finding, 'open') as finding, count(*) as n
        from {schema}.positions where consumer = c.number and head = 'gap' group by 1
    ) missing), '{}') as gaps,
    coalesce((select jsonb_object_agg(reason, n) from (
        select reason, count(*) as n from (
            select reason from {schema}.quarantine where consumer = c.number and state = 'quarantined' limit $1
        ) few group by reason
    ) aside), '{}') as quarantine,
    coalesce((select jsonb_object_agg(kind, n) from (
        select kind, count(*) as n from (
            select kind from {schema}.incidents where consumer = c.number and closed is null limit $1
        ) few group by kind
    ) told), '{}') as incidents,
    coalesce((select max(f.top - f.floor) from {schema}.floors f where f.consumer = c.number), 0)::bigint as unread,
    (select jsonb_build_object(
            'phase', b.phase, 'age_s', extract(epoch from clock_timestamp() - b.started)::float8,
            'share', cardinality(b.finished)::float8 / greatest(b.buckets, 1),
            'doing', p.doing, 'done', p.done, 'expected', p.expected,
            'per_s', case when p.told > clock_timestamp() - interval '10 seconds' then p.per_s else 0 end
        ) from {schema}.builds b left join {schema}.build_progress p on p.build = b.number
        where b.consumer = c.number and b.ended is null) as build,
    case when exists (select from {schema}.counters k where k.consumer = c.number and k.outcome = 'intents') then (
        select count(*) from {schema}.audit a
        where a.action = 'replay' and starts_with(a.object, c.name || ': ') and a.at > clock_timestamp() - interval '1 hour'
    ) else 0 end as replays
from {schema}.consumers c
order by c.name
