-- The parked event with the lowest version of an aggregate.
select source, id, aggregate, version, attempts, hash
from {schema}.parked where consumer = $1 and aggregate = $2 and ordered
order by version limit 1
