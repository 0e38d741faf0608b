-- What the processes of each consumer have applied in the last sixty whole minutes, and how often they have failed, row by row: `places`
-- are minutes of an hour, `place` is the one that is not over; $1: of this consumer alone.
with now as materialized (
    select minute, extract(minute from minute at time zone 'UTC')::int as place from date_trunc('minute', clock_timestamp(), 'UTC') as minute
), kept as materialized (
    select consumer, array_agg(place) as places, array_agg(applied) as applied, array_agg(failed) as failed
    from {schema}.minute_counts
    where minute >= (select minute - interval '60 minutes' from now) and minute < (select minute from now)
        and ($1::text is null or consumer = (select number from {schema}.consumers where name = $1))
    group by consumer
)
select c.name, now.place, k.places, k.applied, k.failed
from kept k join {schema}.consumers c on c.number = k.consumer cross join now
order by c.name
