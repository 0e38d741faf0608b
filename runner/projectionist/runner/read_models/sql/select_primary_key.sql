-- The columns of a table's primary key, in the key's order.
select a.attname::text as name
from pg_index i
cross join lateral unnest(i.indkey::smallint[]) with ordinality as k (attnum, n)
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
where i.indrelid = to_regclass($1) and i.indisprimary
order by k.n
