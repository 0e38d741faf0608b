-- Sets where an aggregate stands after an action; $6: its head is due at once.
update {schema}.positions
set version = $3, head = $4, parked = $5, finding = null, due = case when $6 then clock_timestamp() end
where consumer = $1 and aggregate = $2
