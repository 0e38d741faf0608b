-- Which of these aggregates wait for a first version, and the lowest version that is parked of each. Positions are found
-- by their key, whatever stands at their heads.
with stand as materialized (
    select aggregate, version, head, parked from {schema}.positions
    where consumer = $1 and aggregate = any($2::text[])
)
select stand.aggregate, first.version as lowest
from stand
cross join lateral (
    select parked.version from {schema}.parked
    where parked.consumer = $1 and parked.aggregate = stand.aggregate and parked.ordered
    order by parked.version
    limit 1
) first
where stand.version = 0 and stand.head = 'gap'
