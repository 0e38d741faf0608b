-- Incidents by consumer and kind, the largest group first.
select c.name as consumer, i.kind, i.closed is not null as closed, count(*) as count, min(i.opened) as oldest,
    min(i.number) as sample
from {schema}.incidents i left join {schema}.consumers c on c.number = i.consumer
where ($1::text is null or c.name = $1) and ($2::text is null or i.kind = $2) and ($3 or i.closed is null)
group by c.name, i.kind, i.closed is not null
order by i.closed is not null, count(*) desc, c.name, i.kind
