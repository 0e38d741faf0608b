-- Whether a view shows all its columns of this one table, and nothing else is said in it; null if there is no such view.
select v.relkind = 'v' and coalesce(
    regexp_replace(pg_get_viewdef(v.oid), '\s+', '', 'g')
        = regexp_replace(format('SELECT %s FROM %s, (SELECT) read_only;', c.list, t.oid::regclass), '\s+', '', 'g'), false)
from pg_class v left join pg_class t on t.oid = to_regclass($2::text)
cross join lateral (
    select string_agg(quote_ident(t.relname) || '.' || quote_ident(attname), ', ' order by attnum) as list
    from pg_attribute where attrelid = v.oid and attnum > 0
) c
where v.oid = to_regclass($1::text)
