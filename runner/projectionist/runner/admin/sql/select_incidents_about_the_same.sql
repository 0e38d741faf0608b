-- The open incidents of all consumers about the same as these ($1), themselves among them.
select distinct i.number
from {schema}.incidents a
join {schema}.consumers k on k.number = a.consumer
join {schema}.consumers c on c.stream = k.stream
join {schema}.incidents i on i.consumer = c.number and i.kind = a.kind and i.incarnation = a.incarnation and i.seq = a.seq
where a.number = any($1::bigint[]) and i.closed is null
order by i.number
