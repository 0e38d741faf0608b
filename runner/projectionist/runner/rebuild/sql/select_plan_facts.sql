-- What a plan tells about a consumer.
select (select count(*) from {schema}.positions where consumer = $1) as aggregates,
    (select count(*) from {schema}.positions where consumer = $1 and head <> 'clear') as held,
    (select count(*) from {schema}.decisions where consumer = $1) as decisions,
    (select coalesce(sum(pg_total_relation_size(to_regclass(v))), 0)::bigint from unnest($2::text[]) v) as bytes
