-- Which database this is, by what every role may read. The timeline is null while it takes no writes. At last, whether the
-- table that the schema says it came with is there beside its own: then the schema is a copy inside of its database.
select null::text as system, case when not pg_is_in_recovery()
        then ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer end as timeline,
    d.oid as database, d.datname::text as name, '{schema}.consumers'::regclass::oid as home,
    exists (
        select from {schema}.owner o join pg_class c on c.oid = o.home and c.relname = 'consumers'
        where o.home <> '{schema}.consumers'::regclass and o.database = d.oid
    ) as beside
from pg_database d where d.datname = current_database()
