-- Where an aggregate stands, by consumer, and how many of its versions up to there the inbox holds or a decision names.
select c.name as consumer, c.number, p.version, p.head, p.finding, p.parked, p.due, (
        select count(distinct v) from (
            select i.version as v from {schema}.inbox i
            where i.consumer = c.number and i.aggregate = p.aggregate and i.version between 1 and p.version
            union all
            select v from {schema}.decisions d
            cross join lateral generate_series(d.version, least(coalesce(d.upto, d.version), p.version)) as v
            where d.consumer = c.number and d.aggregate = p.aggregate and d.kind in ('skip', 'discard', 'accept_gap', 'baseline')
        ) known
    ) as known
from {schema}.consumers c
join {schema}.positions p on p.consumer = c.number and p.aggregate = $1
where $2::text is null or c.name = $2
order by c.name
