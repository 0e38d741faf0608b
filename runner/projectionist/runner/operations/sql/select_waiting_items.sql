-- The next items, of those from place $2 to $3, that are to be tried.
select place, judged, consumer, source, id, incarnation, seq, aggregate, version, attempts from {schema}.operation_items
where operation = $1 and place between $2 and $3 and state = 'waiting'
order by place limit $4
