-- The generations of a view that have tables. `expired`: kept long enough, unless a rollback goes back to it.
select g.generation, g.state, g.revision, g.tables::text as tables, g.shape, g.code, g.build, g.created, g.kept_until,
    coalesce(g.kept_until <= clock_timestamp(), false) and not exists (
        select from {schema}.build_views t join {schema}.builds b on b.number = t.build
        where t.view = g.view and t.generation = g.generation and b.ended is null
    ) as expired
from {schema}.generations g where g.view = $1 and g.state <> 'dropped' order by g.generation
