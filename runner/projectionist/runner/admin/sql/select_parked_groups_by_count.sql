-- Parked events that are alike, the largest group first, as they were counted when they were parked; of each the first of the
-- stream. $5: so many events of all groups at most are looked at for how many wait for somebody, twenty of each at least; `bounded`:
-- there are more.
with groups as materialized (
    select k.consumer, c.name, k.cause, k.type, k.alike, sum(k.events)::bigint as events
    from {schema}.parked_counts k join {schema}.consumers c on c.number = k.consumer
    where ($1::text is null or c.name = $1) and ($2::text is null or k.cause = $2) and ($3::text is null or k.type = $3)
        and ($4::text is null or k.alike = $4)
    group by k.consumer, c.name, k.cause, k.type, k.alike having sum(k.events) > 0
)
select g.name as consumer, g.cause, g.type, g.alike,
    case when first.one_why then first.why else split_part(first.why, ': ', 1) end as why,
    case when first.one_own and few.n <= first.n then first.own end as own,
    g.events as count, few.waiting, few.n < g.events as bounded, first.oldest, first.id as sample, first.source
from groups g
cross join lateral (
    select count(*) as n, count(*) filter (where waits) as waiting from (
        select case when e.ordered then p.head = 'waiting' and (e.cause = 'failed' or p.finding is not null)
                else e.cause = 'failed' and e.due is null and not e.discarded
            end as waits
        from (
            select * from {schema}.parked
            where consumer = g.consumer and cause = g.cause and type = g.type and alike = g.alike
            order by incarnation, seq limit greatest($5::bigint / (select greatest(count(*), 1) from groups), 20)
        ) e
        left join {schema}.positions p on p.consumer = e.consumer and p.aggregate = e.aggregate and e.ordered
    ) each
) few
cross join lateral (
    select count(*) as n, min(s.parked_at) as oldest, min(s.why) as why, min(s.why) = max(s.why) as one_why,
        min(s.own) as own, min(s.own) = max(s.own) as one_own,
        (array_agg(s.id order by s.incarnation, s.seq))[1] as id,
        (array_agg(s.source order by s.incarnation, s.seq))[1] as source
    from (
        select consumer, source, id from {schema}.parked
        where consumer = g.consumer and cause = g.cause and type = g.type and alike = g.alike
        order by incarnation, seq limit 20
    ) e
    cross join lateral (
        select * from {schema}.parked_seen where consumer = e.consumer and source = e.source and id = e.id limit 1
    ) s
) first
where first.n > 0
order by g.events desc, first.oldest, g.name, g.cause, g.type
