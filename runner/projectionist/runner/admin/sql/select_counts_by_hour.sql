-- What has happened in the last day, by consumer and hour.
select c.name, to_char(k.hour at time zone 'UTC', 'YYYY-MM-DD HH24:00') as what, k.outcome, sum(k.n)::bigint as n
from {schema}.counters k join {schema}.consumers c on c.number = k.consumer
where k.hour > clock_timestamp() - interval '1 day'
group by c.name, k.hour, k.outcome order by c.name, k.hour, k.outcome
