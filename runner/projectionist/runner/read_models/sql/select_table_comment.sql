-- What a table bears as its comment, and whether it is an ordinary table.
select c.relkind = 'r' as plain, coalesce(obj_description(c.oid, 'pg_class'), '') as mark
from pg_class c where c.oid = to_regclass($1)
