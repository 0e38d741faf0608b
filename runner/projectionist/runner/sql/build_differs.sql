-- Aggregates in which the shadow does not stand where the live generation does. There must be none at the swap.
select coalesce(p.aggregate, b.aggregate) as aggregate, coalesce(p.version, $3) as live, coalesce(b.version, $3) as shadow
from (select aggregate, version from {schema}.positions where consumer = $1) p
full join (select aggregate, version from {schema}.build_positions where build = $2) b on b.aggregate = p.aggregate
where coalesce(p.version, $3) <> coalesce(b.version, $3)
limit 5
