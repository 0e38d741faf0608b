-- Opens the way back to a kept generation: it takes over the positions the generation stood at when it was left.
insert into {schema}.builds (consumer, kind, generation, phase, epoch, owner, revision, shape, code, base, incarnation, positions)
select g.consumer, 'rollback', g.generation, 'open', $3, $4, g.revision, g.shape, g.code, c.code, c.incarnation, g.build
from {schema}.generations g join {schema}.consumers c on c.number = g.consumer
where g.consumer = $1 and g.generation = $2 and g.state = 'kept' and g.build is not null
returning number
