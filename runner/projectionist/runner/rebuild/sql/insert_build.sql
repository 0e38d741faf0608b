-- Opens a build of a view with its next free generation.
with view as (
    select v.*, c.incarnation, 1 + greatest(v.generation,
        (select max(g.generation) from {schema}.generations g where g.view = v.number)) as next
    from {schema}.views v join {schema}.consumers c on c.number = v.consumer where v.number = $1
), opened as (
    insert into {schema}.builds (consumer, kind, phase, epoch, owner, incarnation, partial)
    select consumer, 'rebuild', 'open', $2, $3, incarnation, $7 from view
    returning number
)
insert into {schema}.build_views (build, view, generation, revision, shape, code, base)
select o.number, v.number, v.next, $4, $5, $6, v.code from opened o cross join view v
returning build as number, generation
