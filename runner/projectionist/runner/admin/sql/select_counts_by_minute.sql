-- What was applied and which tries failed in the last sixty whole minutes and this one, by consumer; $1: of this consumer alone.
select c.name, to_char(m.minute at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as what, o.outcome, sum(o.n)::bigint as n
from {schema}.minute_counts m join {schema}.consumers c on c.number = m.consumer
cross join lateral (values ('applied', m.applied), ('failed', m.failed)) o (outcome, n)
where m.minute >= date_trunc('minute', clock_timestamp(), 'UTC') - interval '60 minutes' and o.n > 0
    and ($1::text is null or m.consumer = (select number from {schema}.consumers where name = $1))
group by c.name, m.minute, o.outcome order by c.name, m.minute, o.outcome
