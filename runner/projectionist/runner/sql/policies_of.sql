-- The statements that leave a table without the policies it has: those of the live generation take their place.
select format('drop policy %I on %s', p.polname, $1::text) as statement
from pg_policy p where p.polrelid = to_regclass($1::text)
