-- Which parked events hold these versions. A probe each, as `select_inbox_by_identity`.
select p.*
from unnest($2::text[], $3::bigint[]) as asked (aggregate, version)
cross join lateral (
    select aggregate, version, source, id
    from {schema}.parked
    where consumer = $1 and aggregate = asked.aggregate and version = asked.version and ordered
    offset 0
) as p
