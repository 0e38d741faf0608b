-- The indexes of a generation's table that no class declares ($3: those that one does), with the statement that makes each
-- on another: for whom the table has no such index already.
with t as (select c.* from pg_class c where c.oid = to_regclass($1::text)),
those as (
    select x.indrelid, c.relname::text as name, x.indisvalid, x.indisunique, starts_with(d.text, b.text) as readable,
        exists (select from pg_constraint k where k.conindid = x.indexrelid) as bound, substr(d.text, length(b.text) + 1) as rest
    from pg_index x join pg_class c on c.oid = x.indexrelid
    join pg_class o on o.oid = x.indrelid join pg_namespace n on n.oid = o.relnamespace
    cross join lateral (select pg_get_indexdef(x.indexrelid) as text) d
    cross join lateral (select format('CREATE %sINDEX %I ON %I.%I ', case when x.indisunique then 'UNIQUE ' end, c.relname,
        n.nspname, o.relname) as text) b
    where x.indrelid in (to_regclass($1::text), to_regclass($2::text))
)
select h.name, format('create %sindex on %s %s', case when h.indisunique then 'unique ' end, $2::text, h.rest) as statement
from those h join t on t.oid = h.indrelid
where h.indisvalid and h.readable and not h.bound and h.name <> all($3::text[]) and not exists (
    select from those o where o.indrelid = to_regclass($2::text) and (o.rest, o.indisunique) = (h.rest, h.indisunique)
)
order by h.name
