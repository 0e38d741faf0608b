-- Sessions whose snapshot is older than the rows of the shadow: they would find the new generation empty.
select pid, coalesce(application_name, '') as name, extract(epoch from clock_timestamp() - xact_start)::float8 as age_s
from pg_stat_activity
where backend_xmin is not null and datname = current_database() and pid <> pg_backend_pid()
    and age(backend_xmin) >= age($1::text::xid8::xid)
order by xact_start
