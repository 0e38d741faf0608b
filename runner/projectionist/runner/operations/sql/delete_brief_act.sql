-- Removes a long act that was done within $2 seconds.
delete from {schema}.operations
where number = $1 and outcome = 'done' and ended - began < $2::float8 * interval '1 second'
