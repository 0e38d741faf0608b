-- Ends transactions of runners that are silent for $1 seconds, unless they began just now: behind a pooler each keeps a session
-- that others wait for, and whoever waits for a session, not for a lock, waits for nobody that PostgreSQL could name. Of a
-- process that is frozen every BEGIN that waits in the pooler gets one still. By the names of transactions: $2 is the tag of
-- this schema's runners. Sessions of another role are not ours to end.
select r.host, r.pid, extract(epoch from clock_timestamp() - r.beat)::float8 as silent_s, pg_terminate_backend(a.pid)
from {schema}.runners r
join pg_stat_activity a on a.application_name like 'projectionist ' || r.number || '@' || $2::text || ' %'
where r.stopped is null and r.beat < clock_timestamp() - $1::float8 * interval '1 second'
    and a.state <> 'idle' and a.xact_start < clock_timestamp() - $3::float8 * interval '1 second'
    and a.datname = current_database() and a.usename = current_user
