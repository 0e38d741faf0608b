-- The next items of one sample of one group that are to be tried.
select place, judged, consumer, source, id, incarnation, seq, aggregate, version, attempts from {schema}.operation_items
where operation = $1 and alike = $2 and sample = $3 and state = 'waiting'
order by place limit $4
