-- The indexes of a table, whether each is whole, and what it bears as its comment.
select c.relname::text as name, i.indisvalid as valid, coalesce(obj_description(c.oid, 'pg_class'), '') as mark
from pg_index i join pg_class c on c.oid = i.indexrelid where i.indrelid = to_regclass($1::text)
