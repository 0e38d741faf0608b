-- Transactions of any role whose snapshot may be older than the rows of the shadow: they would find the new generation
-- empty. $2: of these alone. Of another role's session the locks, the name and the snapshot can be seen, and not its start.
select l.pid, l.virtualtransaction as transaction, coalesce(a.application_name, '') as name
from pg_locks l join pg_stat_activity a on a.pid = l.pid, {schema}.builds b
where b.number = $1 and b.settled is not null
    and l.locktype = 'virtualxid' and l.granted and l.virtualxid = l.virtualtransaction and l.pid <> pg_backend_pid()
    and a.datname = current_database() and a.usesysid is not null
    and age(a.backend_xmin) >= age(b.settled::xid)
    and ($2::text[] is null or l.virtualtransaction = any($2))
order by l.pid
