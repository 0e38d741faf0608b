-- Writes down a new session of a process that has joined, the latest few; no row if this database does not know the process.
update {schema}.runners set backends = (pg_backend_pid() || backends)[1:8], beat = clock_timestamp()
where number = $1 and instance = $2
returning number
