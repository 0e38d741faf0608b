-- Opens a build with the next free generation.
insert into {schema}.builds (consumer, kind, generation, phase, epoch, owner, revision, shape, code, base, incarnation, partial)
select c.number, 'rebuild', 1 + greatest(c.generation, (select max(generation) from {schema}.generations g where g.consumer = c.number)),
    'open', $2, $3, $4, $5, $6, c.code, c.incarnation, $7
from {schema}.consumers c where c.number = $1
returning number, generation
