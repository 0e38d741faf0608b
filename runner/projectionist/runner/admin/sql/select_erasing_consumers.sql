-- Every view of every consumer, with what decides how an erase goes about it.
select c.number, c.name, v.number as view, v.name as view_name, v.kind, v.state, c.stream, c.subjects, c.sequence, v.generation,
    v.own_type, c.incarnation, c.build,
    exists (
        select from {schema}.generations g where g.view = v.number and g.generation = v.generation and g.state = 'live'
    ) as has_rows,
    coalesce((select max(f.floor) from {schema}.floors f where f.consumer = c.number and f.incarnation = c.incarnation), 0)
        as floor,
    array(select g.generation from {schema}.generations g where g.view = v.number and g.state = 'kept'
        order by g.generation) as kept
from {schema}.consumers c join {schema}.views v on v.consumer = c.number
order by c.number, v.number
