-- A process says that it lives, and how its batches go.
update {schema}.runners
set beat = clock_timestamp(), state = $2, backends = $3, batches = $4, p50_ms = $5, p99_ms = $6, lag = $7, unacked = $8,
    stopped = case when $2 = 'stopped' then clock_timestamp() end
where number = $1
