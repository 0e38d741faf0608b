-- Transactions of any role with a snapshot from before $1, but for batches that wait for the barrier. $2: of these alone.
select l.virtualtransaction as transaction
from pg_locks l join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'virtualxid' and l.granted and l.virtualxid = l.virtualtransaction and l.pid <> pg_backend_pid()
    and a.datname = current_database() and a.usesysid is not null
    and age(a.backend_xmin) > age($1::text::xid8::xid)
    and ($2::text[] is null or l.virtualtransaction = any($2))
    and not exists (select from pg_locks w where w.pid = l.pid and w.locktype = 'advisory' and not w.granted)
