-- Adds to this process's own counters; readers sum over processes.
insert into {schema}.counters (consumer, runner, hour, type, outcome, n)
select $1, $2, date_trunc('hour', clock_timestamp(), 'UTC'), type, outcome, n
from unnest($3::text[], $4::text[], $5::bigint[]) as seen (type, outcome, n)
on conflict (consumer, runner, hour, type, outcome) do update set n = counters.n + excluded.n
