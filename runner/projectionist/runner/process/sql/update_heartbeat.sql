-- A process says that it lives, and how its batches go.
update {schema}.runners
set beat = clock_timestamp(), state = $2, batches = $3, p50_ms = $4, p99_ms = $5, lag = $6, unacked = $7,
    stopped = case when $2 = 'stopped' then clock_timestamp() end
where number = $1
returning extract(epoch from beat)::float8
