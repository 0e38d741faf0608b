-- How many pages a table of ours has.
select pg_relation_size(c.oid) / current_setting('block_size')::bigint
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and c.relname = $2
