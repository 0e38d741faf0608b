-- The registrations of all consumers.
select number, name, key_name, durable, kind, revision, shape, code, epoch, generation, stream, sequence, baseline, subjects,
    incarnation, effects_incarnation, effects_mark, paused, build
from {schema}.consumers order by name
