-- What has happened in the last day, by consumer and hour; $1: of this consumer alone.
select c.name, to_char(k.hour at time zone 'UTC', 'YYYY-MM-DD HH24:00') as what, k.outcome, sum(k.n)::bigint as n
from {schema}.counters k join {schema}.consumers c on c.number = k.consumer
where k.hour > clock_timestamp() - interval '1 day'
    and ($1::text is null or k.consumer = (select number from {schema}.consumers where name = $1))
group by c.name, k.hour, k.outcome order by c.name, k.hour, k.outcome
