-- The views of a consumer that are built before batches write them.
select v.name
from {schema}.views v join {schema}.consumers c on c.number = v.consumer
where c.name = $1 and v.state = 'joining'
