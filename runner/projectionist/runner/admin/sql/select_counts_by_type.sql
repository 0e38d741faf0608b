-- What has happened, by consumer and event type; $1: of this consumer alone.
select c.name, k.type as what, k.outcome, sum(k.n)::bigint as n
from {schema}.counters k join {schema}.consumers c on c.number = k.consumer
where $1::text is null or k.consumer = (select number from {schema}.consumers where name = $1)
group by c.name, k.type, k.outcome order by c.name, k.type, k.outcome
