-- The columns of a table's primary key, in the key's order, each with the operator by which its index tells rows apart.
select a.attname::text as name, format('operator(%I.%s)', n.nspname, o.oprname) as equals
from pg_index i
cross join lateral unnest(i.indkey::smallint[], i.indclass::oid[]) with ordinality as k (attnum, class, n)
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
join pg_opclass c on c.oid = k.class
join pg_amop p on p.amopfamily = c.opcfamily and p.amoplefttype = c.opcintype and p.amoprighttype = c.opcintype
    and p.amopstrategy = 3
join pg_operator o on o.oid = p.amopopr
join pg_namespace n on n.oid = o.oprnamespace
where i.indrelid = to_regclass($1) and i.indisprimary
order by k.n
