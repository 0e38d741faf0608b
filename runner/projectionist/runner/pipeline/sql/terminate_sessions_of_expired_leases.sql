-- Ends what runners whose lease is over have open in sessions: a process that was stopped keeps its locks for as long as
-- it likes otherwise. A session that began after the lease was over is one of a runner that lives again; one that begins in
-- the future began by a clock that has gone back since; one with another tag than $2 belongs to a runner of another schema.
select count(pg_terminate_backend(a.pid)) from {schema}.runners r
join pg_stat_activity a on a.application_name like 'projectionist ' || r.number || '@' || $2::text || ' %'
where r.consumer = $1 and r.stopped is null and r.leased_until < clock_timestamp()
    and (a.backend_start < r.leased_until or a.backend_start > clock_timestamp())
    and a.state <> 'idle' and a.datname = current_database() and a.usename = current_user
