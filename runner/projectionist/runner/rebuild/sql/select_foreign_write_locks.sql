-- Tables on which this transaction holds a write lock, other than those of the shadow and the builder's own.
select distinct format('%I.%I', n.nspname, c.relname) as name
from pg_locks l
join pg_class c on c.oid = l.relation and c.relkind in ('r', 'p')
join pg_namespace n on n.oid = c.relnamespace
where l.pid = pg_backend_pid() and l.locktype = 'relation'
    and l.mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    and not (n.oid = (select relnamespace from pg_class where oid = '{schema}.builds'::regclass)
        and (c.relname = any($1::text[]) or c.relname ~ '^(builds|build_.*|dirty_marks)$'))
    and n.nspname not in ('pg_catalog', 'pg_toast')
