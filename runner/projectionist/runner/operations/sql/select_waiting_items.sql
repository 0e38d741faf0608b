-- The next items, of those from place $2 to $3, that are to be tried.
select i.place, i.judged, i.consumer, i.source, i.id, i.incarnation, i.seq, n.key, i.seen, i.aggregate, i.version, i.attempts
from {schema}.operation_items i left join {schema}.intents n on n.seq = i.intent
where i.operation = $1 and i.place between $2 and $3 and i.state = 'waiting'
order by i.place limit $4
