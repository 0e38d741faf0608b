-- The registration of a consumer, and the build that is open.
select c.number, c.name, c.durable, c.epoch, c.stream, c.sequence, c.baseline, c.subjects, c.incarnation, c.paused,
    (select b.number from {schema}.builds b where b.consumer = c.number and b.ended is null) as build
from {schema}.consumers c
where c.name = $1
