-- What is parked of an aggregate ($2), or the event ($3, $4).
select source, id, type, ordered from {schema}.parked
where consumer = $1 and (aggregate = $2 or source = $3 and id = $4)
order by source, id
for update
