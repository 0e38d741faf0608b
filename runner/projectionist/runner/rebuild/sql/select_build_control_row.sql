-- The control row with one of its views, as it stands under the exclusive barrier.
select c.number, c.sequence, c.epoch, c.incarnation, c.paused, c.build, c.slot, c.repeats, v.number as view, v.name as view_name, v.key_name,
    v.generation, v.revision, v.shape, v.code, v.effects_incarnation, v.effects_mark, v.own_type, v.own_since
from {schema}.consumers c join {schema}.views v on v.consumer = c.number
where v.number = $1
