-- The indexes of a table, whether each is whole, and its columns.
select c.relname::text as name, i.indisvalid as valid,
    array(select a.attname::text from unnest(i.indkey::smallint[]) with ordinality k (attnum, n)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum order by k.n) as columns
from pg_index i join pg_class c on c.oid = i.indexrelid where i.indrelid = to_regclass($1::text)
