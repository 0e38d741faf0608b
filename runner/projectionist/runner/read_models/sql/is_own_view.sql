-- Whether a view shows all its columns of this one table, and nothing else is said in it; null if there is no such view.
-- Until PostgreSQL 15 columns are told with the name of their table.
select v.relkind = 'v' and coalesce(
    regexp_replace(btrim(pg_get_viewdef(v.oid), E' \n'), '\s+', ' ', 'g') = any (array[
        regexp_replace(format('SELECT %s FROM %s;', c.plain, t.oid::regclass), '\s+', ' ', 'g'),
        regexp_replace(format('SELECT %s FROM %s;', c.qualified, t.oid::regclass), '\s+', ' ', 'g')
    ]), false)
from pg_class v left join pg_class t on t.oid = to_regclass($2::text)
cross join lateral (
    select string_agg(quote_ident(attname), ', ' order by attnum) as plain,
        string_agg(quote_ident(t.relname) || '.' || quote_ident(attname), ', ' order by attnum) as qualified
    from pg_attribute where attrelid = v.oid and attnum > 0
) c
where v.oid = to_regclass($1::text)
