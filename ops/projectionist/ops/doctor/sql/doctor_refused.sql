-- How many intents of which consumer stand in staged batches that could not be opened, and why the last of them.
select c.name, sum(w.intents)::bigint as n, max(w.refused) as refused
from {schema}.staged_intents w
join {schema}.consumers c on c.number = w.consumer
where w.refused is not null
group by c.name
order by c.name
