-- The same of these aggregates, at the swap, where nothing moves. There must be none.
select coalesce(p.aggregate, b.aggregate) as aggregate, coalesce(p.version, $3) as live, coalesce(b.version, $3) as shadow
from (select aggregate, version from {schema}.positions where consumer = $1 and aggregate = any($4::text[])) p
full join (select aggregate, version from {schema}.build_positions where build = $2 and aggregate = any($4::text[])) b
    on b.aggregate = p.aggregate
where coalesce(p.version, $3) <> coalesce(b.version, $3)
limit 5
