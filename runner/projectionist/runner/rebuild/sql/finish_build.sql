-- The build is over.
update {schema}.builds set phase = $2, ended = clock_timestamp(), touched = clock_timestamp() where number = $1
