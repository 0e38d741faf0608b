-- How many rows a generation may come to: no fewer than there are aggregates.
select greatest(
    (select count(*) from {schema}.positions where consumer = $1),
    (select coalesce(max(c.reltuples)::bigint, 0) from {schema}.generations g
        join {schema}.consumers k on k.number = g.consumer and k.generation = g.generation
        cross join lateral jsonb_object_keys(g.tables) as t (name)
        join pg_class c on c.oid = to_regclass(
            quote_ident($2) || '.' || quote_ident(split_part(t.name, '.', 2) || '__g' || g.generation))
        where g.consumer = $1)
)
