-- Ends the sessions of runners whose lease is over and who still hold claims: a process that was stopped keeps its
-- locks for as long as it likes otherwise. A session that began after the lease ended is somebody else's.
select count(pg_terminate_backend(a.pid)) from {schema}.runners r
join pg_stat_activity a on a.pid = r.drain_pid
where r.consumer = $1 and r.leased_until < clock_timestamp() and a.backend_start < r.leased_until
    and a.datname = current_database() and a.usename = current_user and a.application_name like 'projectionist %'
    and exists (select from {schema}.positions p where p.consumer = $1 and p.owner = r.number)
