-- Ends the sessions that keep backend $1 waiting, directly or through others, whose process is silent for $2 seconds.
-- A number that the system has given to another backend since is not meant: that one began after the last beat. One that
-- begins in the future began by a clock that has gone back since. Sessions of another role are not ours to end: what a runner says of
-- itself is its own word.
with recursive waits (pid) as (
    select unnest(pg_blocking_pids($1))
    union
    select unnest(pg_blocking_pids(waits.pid)) from waits
)
select r.host, r.pid, extract(epoch from clock_timestamp() - r.beat)::float8 as silent_s, pg_terminate_backend(a.pid)
from waits
join pg_stat_activity a on a.pid = waits.pid and a.datname = current_database() and a.application_name like 'projectionist %'
    and a.usename = current_user
join {schema}.runners r on a.pid = any(r.backends) and r.stopped is null
    and (a.backend_start <= r.beat or a.backend_start > clock_timestamp())
where r.beat < clock_timestamp() - $2::float8 * interval '1 second'
