-- Incidents by kind and by whom they concern, the largest group first. What one event is to several consumers is one thing
-- to act on; of an intent, one each.
select consumers, kind, closed, count(*) as count, min(oldest) as oldest, min(sample) as sample, (array_agg(about order by sample))[1] as about
from (
    select array_agg(distinct c.name order by c.name) as consumers, i.kind, i.closed is not null as closed,
        min(i.opened) as oldest, min(i.number) as sample,
        coalesce(i.aggregate || coalesce(' version ' || i.version, ''), i.id) as about
    from {schema}.incidents i left join {schema}.consumers c on c.number = i.consumer
    where ($1::text is null or c.name = $1) and ($2::text is null or i.kind = $2) and ($3 or i.closed is null)
    group by c.stream, i.incarnation, i.seq, i.kind, i.source, i.id, i.aggregate, i.version, i.closed is not null,
        case when i.kind like 'intent%' then i.number end
) each
group by consumers, kind, closed
order by closed, count(*) desc, consumers, kind
