-- Writes down a new session of a process that has joined; no row if this database does not know the process.
update {schema}.runners set backends = backends || pg_backend_pid(), beat = clock_timestamp()
where number = $1 and instance = $2
returning number
