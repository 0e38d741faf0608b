-- The generation that was live is kept for a while; $3 says by which build's positions it can be caught up.
update {schema}.generations
set state = 'kept', build = $3, kept_until = clock_timestamp() + $4::float8 * interval '1 second'
where consumer = $1 and generation = $2
