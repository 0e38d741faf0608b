-- What holds for this batch. A statement of its own, after the barrier: what it reads is newer than any wait.
select epoch, incarnation, generation, code, paused, effects_incarnation, effects_mark, own_type
from {schema}.consumers where number = $1
