-- The registration of a consumer, and the build that is open.
select number, name, key_name, durable, kind, revision, shape, code, epoch, generation, stream, sequence, baseline, subjects,
    incarnation, effects_incarnation, effects_mark, paused,
    (select b.number from {schema}.builds b where b.consumer = consumers.number and b.ended is null) as build
from {schema}.consumers where name = $1
