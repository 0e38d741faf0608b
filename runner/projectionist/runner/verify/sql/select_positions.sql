-- Where these aggregates stand, without a lock.
select aggregate, version from {schema}.positions where consumer = $1 and aggregate = any($2::text[])
