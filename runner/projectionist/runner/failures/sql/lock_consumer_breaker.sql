-- The breaker of a consumer and the time it is judged by.
select state, epoch, failures, openings, extract(epoch from until)::float8 as until, pause_s, runner, reason,
    extract(epoch from clock_timestamp())::float8 as now
from {schema}.consumer_breakers where consumer = $1
for update
