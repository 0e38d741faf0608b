-- Sessions that hold one of the advisory locks $1, and are not of ours by their name.
select distinct a.pid, a.usename::text as role, a.application_name::text as name
from pg_locks l join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.objsubid = 1 and a.datname = current_database()
    and (l.classid::bigint << 32 | l.objid::bigint) = any($1::bigint[]) and a.application_name not like 'projectionist%'
order by a.pid
