-- What was shown of a build's views is kept for a while, with the code it was run by last; $2 says by which build's positions it
-- can be caught up. What a view held that joins stands nowhere any more.
update {schema}.generations g
set state = 'kept', build = case when v.state = 'live' then $2::integer end,
    kept_until = clock_timestamp() + $3::float8 * interval '1 second',
    shape = v.shape, code = v.code, revision = v.revision
from {schema}.build_views t join {schema}.views v on v.number = t.view
where t.build = $1 and g.view = v.number and g.generation = v.generation and g.state in ('live', 'kept')
