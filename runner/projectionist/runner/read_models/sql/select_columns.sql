-- The columns of a table or view, in their order.
select attname::text as name, format_type(atttypid, atttypmod) as sql_type, attcollation::regcollation::text as collation
from pg_attribute where attrelid = to_regclass($1) and attnum > 0 and not attisdropped order by attnum
