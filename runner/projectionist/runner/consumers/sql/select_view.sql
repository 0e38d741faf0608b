-- The registration of a view with its consumer, and the build that is open.
select c.number, c.name, v.number as view, v.name as view_name, v.key_name, v.state, c.durable, v.kind, v.revision, v.shape, v.code,
    c.epoch, v.generation, c.stream, c.sequence, c.baseline, c.subjects, c.incarnation, v.effects_incarnation, v.effects_mark,
    c.paused, (select b.number from {schema}.builds b where b.consumer = c.number and b.ended is null) as build
from {schema}.consumers c join {schema}.views v on v.consumer = c.number
where v.name = $1
