-- Takes the content out of what was decided about an aggregate ($2) or an event ($3, $4), and out of its incidents.
with corrections as (
    update {schema}.decisions d set headers = null, data = null
    where d.consumer = $1 and (d.aggregate = $2 or d.source = $3 and d.id = $4)
        and (d.headers is not null or d.data is not null)
)
update {schema}.incidents n set detail = 'erased'
where n.consumer = $1 and (n.aggregate = $2 or n.source = $3 and n.id = $4) and n.detail <> 'erased'
