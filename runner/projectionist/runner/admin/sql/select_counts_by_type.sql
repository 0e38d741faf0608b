-- What has happened, by consumer and event type.
select c.name, k.type as what, k.outcome, sum(k.n)::bigint as n
from {schema}.counters k join {schema}.consumers c on c.number = k.consumer
group by c.name, k.type, k.outcome order by c.name, k.type, k.outcome
