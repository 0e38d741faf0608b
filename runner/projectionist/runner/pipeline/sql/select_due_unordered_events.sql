-- Parked entries without order whose next try is due.
select source, id from {schema}.parked
where consumer = $1 and not ordered and due <= clock_timestamp()
order by due limit $2
