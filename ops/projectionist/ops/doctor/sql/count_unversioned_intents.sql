-- How many intents of producers for these providers ($1) are not settled, and lack the aggregate or version of an event.
select i.provider, count(*) as n
from {schema}.intents i
join {schema}.outbox o on o.seq = i.seq
where i.consumer = 0 and i.provider = any($1::text[]) and (i.aggregate is null or i.version is null)
group by i.provider
order by i.provider
