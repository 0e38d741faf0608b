-- A runner lives: the lease behind its claims, and where it settles them.
update {schema}.runners
set leased_until = clock_timestamp() + $2::float8 * interval '1 second', drain_pid = $3
where number = $1
