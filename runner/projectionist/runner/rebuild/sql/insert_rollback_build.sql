-- Opens the way back to a kept generation: it takes over the positions the generation stood at when it was left.
with kept as (
    select g.*, v.consumer, v.code as base, c.incarnation
    from {schema}.generations g
    join {schema}.views v on v.number = g.view
    join {schema}.consumers c on c.number = v.consumer
    where g.view = $1 and g.generation = $2 and g.state = 'kept' and g.build is not null
), opened as (
    insert into {schema}.builds (consumer, kind, phase, epoch, owner, incarnation, positions)
    select consumer, 'rollback', 'open', $3, $4, incarnation, build from kept
    returning number
)
insert into {schema}.build_views (build, view, generation, revision, shape, code, base)
select o.number, k.view, k.generation, k.revision, k.shape, k.code, k.base from opened o cross join kept k
returning build
