-- The server and the database that answer behind a pooler now: since when the one runs, and the number of the other.
select extract(epoch from pg_postmaster_start_time())::text as begun, oid::bigint as database
from pg_database where datname = current_database()
