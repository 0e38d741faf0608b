-- Every consumer, with what decides how an erase goes about it.
select c.number, c.name, v.number as view, v.kind, c.stream, c.subjects, c.sequence, v.generation, v.own_type, c.incarnation,
    c.build, c.name <> v.name as is_set,
    coalesce((select max(f.floor) from {schema}.floors f where f.consumer = c.number and f.incarnation = c.incarnation), 0)
        as floor,
    array(select g.generation from {schema}.generations g where g.view = v.number and g.state = 'kept'
        order by g.generation) as kept
from {schema}.consumers c join {schema}.views v on v.consumer = c.number
order by c.number
