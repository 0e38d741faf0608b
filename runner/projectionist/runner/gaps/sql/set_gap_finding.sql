-- Missing versions will not come by themselves: the head waits, unless it has moved since they were looked for.
update {schema}.positions set head = 'waiting', finding = $4, due = null
where consumer = $1 and aggregate = $2 and version = $3 and head = 'gap'
returning parked
