-- What a build makes, view by view, and what is live of each.
select t.view, v.name, t.generation, t.revision, t.shape, t.code, t.base, v.generation as live, v.code as running,
    (v.revision, v.shape, v.code, g.code) = (t.revision, t.shape, t.code, t.code) as is_same_code
from {schema}.build_views t
join {schema}.views v on v.number = t.view
join {schema}.generations g on g.view = v.number and g.generation = v.generation
where t.build = $1
order by t.view
