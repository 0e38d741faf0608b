-- Names of which the consumer has no generation any more are free.
delete from {schema}.own_names o
where o.consumer = $1 and not exists (
    select from {schema}.generations g where g.consumer = $1 and g.state <> 'dropped' and g.tables ? o.name
)
