-- Locks and reads the circuits of destinations.
select destination, state, epoch, failures, openings, extract(epoch from until)::float8 as until, pause_s,
    extract(epoch from clock_timestamp())::float8 as now
from {schema}.circuits
where provider = $1 and destination = any ($2::text[])
order by destination
for update
