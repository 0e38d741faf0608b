-- Opens a build of views with their next free generations; its number.
with opened as (
    insert into {schema}.builds (consumer, kind, phase, epoch, owner, incarnation, partial)
    select number, 'rebuild', 'open', $2, $3, incarnation, $4 from {schema}.consumers where number = $1
    returning number
)
insert into {schema}.build_views (build, view, generation, revision, shape, code, base)
select o.number, v.number, 1 + coalesce((select max(g.generation) from {schema}.generations g where g.view = v.number), 0),
    w.revision, w.shape, w.code, v.code
from opened o
cross join unnest($5::integer[], $6::integer[], $7::bytea[], $8::bytea[]) as w (view, revision, shape, code)
join {schema}.views v on v.number = w.view
returning build
