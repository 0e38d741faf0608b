-- The generations of a consumer that have tables.
select g.generation, g.state, g.revision, g.tables::text as tables, g.shape, g.code, g.build, g.created, g.kept_until,
    coalesce(g.kept_until <= clock_timestamp(), false) as expired
from {schema}.generations g where g.consumer = $1 and g.state <> 'dropped' order by g.generation
