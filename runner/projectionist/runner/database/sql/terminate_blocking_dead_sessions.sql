-- Ends the sessions that keep backend $1 waiting, directly or through others, whose process is silent for $2 seconds.
-- A batch's session is known by its number. One that the system has given to another backend since is not meant: that one began after the
-- last beat; one that begins in the future began by a clock that has gone back since. Those that a process's consumers share bear its
-- name ($3 and the instance); such a process is silent where all its consumers are. Sessions of another role are not ours to
-- end: what a runner says of itself is its own word.
with recursive waits (pid) as (
    select unnest(pg_blocking_pids($1))
    union
    select unnest(pg_blocking_pids(waits.pid)) from waits
),
silent as (
    select distinct on (a.pid) r.host, r.pid, extract(epoch from clock_timestamp() - r.beat)::float8 as silent_s, a.pid as backend
    from waits
    join pg_stat_activity a on a.pid = waits.pid and a.datname = current_database() and a.application_name like 'projectionist %'
        and a.usename = current_user
    join {schema}.runners r on r.stopped is null and r.beat < clock_timestamp() - $2::float8 * interval '1 second'
    where a.pid = any(r.backends) and (a.backend_start <= r.beat or a.backend_start > clock_timestamp())
        or a.application_name = $3::text || ' ' || r.instance::text and not exists (
            select from {schema}.runners o
            where o.instance = r.instance and o.stopped is null and o.beat >= clock_timestamp() - $2::float8 * interval '1 second'
        )
    order by a.pid, r.beat desc
)
select host, pid, silent_s, pg_terminate_backend(backend) from silent
