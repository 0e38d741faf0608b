-- Names are free of which no view of this one's consumer has a generation any more.
delete from {schema}.own_names o
using {schema}.views v
where v.number = $1 and o.consumer = v.consumer and not exists (
    select from {schema}.generations g join {schema}.views other on other.number = g.view
    where other.consumer = o.consumer and g.state <> 'dropped' and g.tables ? o.name
)
