-- The statement by which a view's owner may read the table behind it: readers do so by the owner's right.
select format('grant select on %s to %I', $2::text, pg_get_userbyid(c.relowner)) as statement
from pg_class c where c.oid = to_regclass($1::text) and not has_table_privilege(c.relowner, to_regclass($2::text), 'select')
