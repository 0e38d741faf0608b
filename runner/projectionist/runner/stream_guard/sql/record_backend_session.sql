-- Writes down a new session of a process that has joined, the latest few, where it is the process's own ($3); no row if this
-- database does not know the process.
update {schema}.runners
set backends = case when $3::boolean then (pg_backend_pid() || backends)[1:8] else backends end, beat = clock_timestamp()
where number = $1 and instance = $2
returning number
