-- The lowest stream sequence that this consumer has settled by applying, and whether any is of an earlier stream of the name.
select min(seq) as first, coalesce(bool_or(incarnation < $2), false) as earlier
from {schema}.inbox where consumer = $1 and state in ('applied', 'ignored')
