-- A parked entry was tried and failed once more.
update {schema}.parked
set cause = 'failed', attempts = $4, budget = $5, due = clock.now + $6::float8 * interval '1 second',
    error_class = $7, error = $8, stack = $9, code = $10, view = $11,
    first_failed = coalesce(first_failed, clock.now), last_failed = clock.now
from clock_timestamp() as clock (now)
where consumer = $1 and source = $2 and id = $3
