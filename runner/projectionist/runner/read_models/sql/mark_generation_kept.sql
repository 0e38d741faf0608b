-- The generation of a view that was live is kept for a while with the code it was run by last; $3 says by which build's
-- positions it can be caught up.
update {schema}.generations g
set state = 'kept', build = $3, kept_until = clock_timestamp() + $4::float8 * interval '1 second',
    shape = v.shape, code = v.code, revision = v.revision
from {schema}.views v
where g.view = $1 and g.generation = $2 and v.number = g.view
