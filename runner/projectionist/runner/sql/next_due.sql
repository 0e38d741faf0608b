-- Seconds until something of this consumer is due; null when nothing waits for a time.
select extract(epoch from least(
    (select min(due) from {schema}.positions where consumer = $1),
    (select min(due) from {schema}.parked where consumer = $1 and not ordered)
) - clock_timestamp())::float8 as seconds
