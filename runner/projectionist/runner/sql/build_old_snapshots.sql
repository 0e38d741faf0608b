-- Transactions whose snapshot may be older than the rows of the shadow: they would find the new generation empty. Such a
-- transaction has begun before those rows were committed, and its snapshot counts their transaction as running or later.
select a.pid, coalesce(a.application_name, '') as name,
    extract(epoch from clock_timestamp() - a.xact_start)::float8 as age_s
from pg_stat_activity a, {schema}.builds b
where b.number = $1 and b.settled is not null
    and a.backend_xmin is not null and a.datname = current_database() and a.pid <> pg_backend_pid()
    and a.xact_start <= b.settled_at and age(a.backend_xmin) >= age(b.settled::xid)
order by a.xact_start
