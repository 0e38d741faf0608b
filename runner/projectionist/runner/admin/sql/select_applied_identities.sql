-- The events of an aggregate ($2), or the event ($3, $4), that a consumer has settled, also if they were erased since; what it
-- ignored as well, since another release may handle it.
select i.source, i.id, i.state = 'applied' as applied
from {schema}.inbox i
where i.consumer = $1 and (i.aggregate = $2 or i.source = $3 and i.id = $4) and i.state in ('applied', 'ignored', 'erased')
