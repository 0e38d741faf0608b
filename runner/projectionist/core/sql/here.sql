-- Which database this is, by what every role may read. The timeline is null while it takes no writes.
select null::text as system, case when not pg_is_in_recovery()
        then ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer end as timeline,
    d.oid as database, d.datname::text as name, '{schema}.consumers'::regclass::oid as home
from pg_database d where d.datname = current_database()
