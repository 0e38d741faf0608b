-- A runner lives: the lease behind its claims.
update {schema}.runners set leased_until = clock_timestamp() + $2::float8 * interval '1 second' where number = $1
