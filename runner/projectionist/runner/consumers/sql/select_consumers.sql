-- The registrations of all consumers.
select c.number, c.name, c.durable, c.epoch, c.stream, c.incarnation, c.paused
from {schema}.consumers c
order by c.name
