-- What these tables take on disk, with their indexes.
select coalesce(sum(pg_total_relation_size(to_regclass(v))), 0)::bigint from unnest($1::text[]) v
