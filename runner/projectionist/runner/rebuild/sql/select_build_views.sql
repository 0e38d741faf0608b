-- What a build makes, view by view, and what readers see of each: of one that joins perhaps nothing, or the rows of when it was
-- written last.
select t.view, v.name, v.state <> 'live' as joins, t.generation, t.revision, t.shape, t.code, t.base, g.generation as live,
    v.code as running,
    coalesce((v.revision, v.shape, v.code, g.code) = (t.revision, t.shape, t.code, t.code), false) as is_same_code
from {schema}.build_views t
join {schema}.views v on v.number = t.view
left join {schema}.generations g on g.view = v.number and g.generation = v.generation and g.state in ('live', 'kept')
where t.build = $1
order by t.view
