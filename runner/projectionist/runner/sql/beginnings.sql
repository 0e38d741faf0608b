-- Which of these aggregates wait for a first version, and the lowest version that is parked of each.
select aggregate, (
    select min(version) from {schema}.parked
    where parked.consumer = $1 and parked.aggregate = positions.aggregate and ordered
) as lowest
from {schema}.positions
where consumer = $1 and aggregate = any($2::text[]) and version = 0 and head = 'gap' and parked > 0
