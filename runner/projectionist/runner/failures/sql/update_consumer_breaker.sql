-- The breaker's new state, under its lock.
update {schema}.consumer_breakers
set state = $2, epoch = $3, failures = $4, openings = $5, until = to_timestamp($6::float8), runner = $7, reason = $8,
    pause_s = $9, changed = clock_timestamp()
where consumer = $1
