-- A replay is over.
update {schema}.runners set state = 'stopped', stopped = clock_timestamp(), beat = clock_timestamp() where number = $1
