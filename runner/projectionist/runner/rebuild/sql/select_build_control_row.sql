-- The control row, as it stands under the exclusive barrier.
select number, generation, revision, shape, code, sequence, key_name, epoch, incarnation, paused, build, slot,
    effects_incarnation, effects_mark, own_type, own_since, repeats
from {schema}.consumers where number = $1
