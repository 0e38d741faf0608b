-- Statement 2 of the twin: whether this batch may go on.
select c.epoch, c.incarnation, v.generation, c.paused
from {schema}.consumers c join {schema}.views v on v.consumer = c.number where c.number = $1
