-- Aggregates in which the shadow does not stand where the live generation does, though no mark says that it has moved.
-- Fair without a lock: a position and its mark are of one commit.
select coalesce(p.aggregate, b.aggregate) as aggregate, coalesce(p.version, $3) as live, coalesce(b.version, $3) as shadow
from (select aggregate, version from {schema}.positions where consumer = $1) p
full join (select aggregate, version from {schema}.build_positions where build = $2) b on b.aggregate = p.aggregate
where coalesce(p.version, $3) <> coalesce(b.version, $3)
    and not exists (select from {schema}.dirty_marks d where d.consumer = $1 and d.mark = coalesce(p.aggregate, b.aggregate))
limit 5
