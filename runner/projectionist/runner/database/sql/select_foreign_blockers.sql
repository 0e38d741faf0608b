-- Sessions that keep backend $1 waiting and are not of ours, by their name.
select a.pid, a.usename::text as role, a.application_name::text as name
from unnest(pg_blocking_pids($1)) as blocking (pid) join pg_stat_activity a on a.pid = blocking.pid
where a.application_name not like 'projectionist%' order by a.pid
