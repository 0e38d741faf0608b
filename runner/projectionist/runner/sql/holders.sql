-- Which parked events hold these versions; the caller drops pairs it did not ask for.
select aggregate, version, source, id
from {schema}.parked
where consumer = $1 and aggregate = any($2::text[]) and version = any($3::bigint[]) and ordered
