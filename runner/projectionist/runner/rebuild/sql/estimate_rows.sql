-- How many rows a generation may come to: no fewer than there are aggregates.
select greatest(
    (select count(*) from {schema}.positions where consumer = $1),
    (select coalesce(max(c.reltuples)::bigint, 0) from unnest($2::text[]) as t (name)
        join pg_class c on c.oid = to_regclass(t.name))
)
