-- Locks the positions of a batch in one order.
select version, head, finding, parked, aggregate, due, coalesce(due <= clock_timestamp(), false) as is_due
from {schema}.positions
where consumer = $1 and aggregate = any($2::text[])
order by aggregate
for update
