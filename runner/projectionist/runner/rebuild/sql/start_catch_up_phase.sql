-- The bulk is in.
update {schema}.builds
set phase = 'catch_up', touched = clock_timestamp() where number = $1
