-- What each consumer has applied in each of the last sixty whole minutes, the oldest first; $1: of this one alone.
with now as materialized (select date_trunc('minute', clock_timestamp(), 'UTC') as minute),
counted as (
    select m.consumer, m.minute, sum(m.applied)::bigint as applied, sum(m.failed)::bigint as failed
    from {schema}.minute_counts m cross join now
    where m.minute >= now.minute - interval '60 minutes' and m.minute < now.minute
        and ($1::text is null or m.consumer = (select number from {schema}.consumers where name = $1))
    group by m.consumer, m.minute
)
select c.name, array_agg(coalesce(k.applied, 0) order by at.minute) as applied,
    array_agg(coalesce(k.failed, 0) order by at.minute) as failed
from now
cross join lateral generate_series(now.minute - interval '60 minutes', now.minute - interval '1 minute', interval '1 minute') as at (minute)
cross join {schema}.consumers c
left join counted k on k.consumer = c.number and k.minute = at.minute
where ($1::text is null or c.name = $1) and exists (select from counted o where o.consumer = c.number)
group by c.name
order by c.name
