-- The statement that keeps readers of a view out, and does nothing else. LOCK TABLE would ask for a right on the table
-- behind it that the view's owner need not have.
select format('alter view %s owner to %I', $1::text, pg_get_userbyid(c.relowner)) as statement
from pg_class c where c.oid = to_regclass($1::text)
