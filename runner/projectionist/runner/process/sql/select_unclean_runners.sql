-- Processes of this consumer, but for runner $2, that have not said that they ended, with signs of life within the hour.
select number, host, pid, instance, beat, extract(epoch from clock_timestamp() - beat)::float8 as silent_s
from {schema}.runners
where consumer = $1 and number <> $2 and stopped is null and beat > clock_timestamp() - interval '1 hour'
order by number desc limit 100
