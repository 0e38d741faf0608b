-- Which server and database this is, and as whom; not `pooled`: a session that was greeted by the server's own process $1.
select extract(epoch from pg_postmaster_start_time())::text as begun, d.oid as database, current_user::text as role,
    pg_backend_pid() <> $1::integer as pooled
from pg_database d where d.datname = current_database()
