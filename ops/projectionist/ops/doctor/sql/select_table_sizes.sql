-- Our own tables: size, rows that are dead and not yet swept, when they were swept, and how often their pages were in memory.
select s.relname as name, s.n_live_tup as live, s.n_dead_tup as dead, greatest(s.last_vacuum, s.last_autovacuum) as swept,
    pg_total_relation_size(s.relid) as bytes, coalesce(io.heap_blks_hit + io.idx_blks_hit, 0) as hit,
    coalesce(io.heap_blks_read + io.idx_blks_read, 0) as read,
    coalesce(array_to_string(c.reloptions, ',') like '%autovacuum_enabled=false%', false) as unswept,
    (select coalesce(array_agg(i.indexrelname::text), '{}') from pg_stat_user_indexes i
        where i.relid = s.relid and i.idx_scan = 0 and pg_relation_size(i.indexrelid) > 100000000) as idle_indexes
from pg_stat_user_tables s
join pg_statio_user_tables io on io.relid = s.relid
join pg_class c on c.oid = s.relid
where s.schemaname = $1 and s.relname not like '%\_\_g%'
order by s.relname
