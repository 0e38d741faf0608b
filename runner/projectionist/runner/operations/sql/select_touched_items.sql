-- Items of an operation that it has acted on, in its order, at most so many.
select c.name as consumer, i.source, i.id, i.incarnation, i.seq, n.key, i.aggregate, i.state, i.note
from {schema}.operation_items i left join {schema}.consumers c on c.number = i.consumer
    left join {schema}.intents n on n.seq = i.intent
where i.operation = $1 and i.state in ('tried', 'done', 'failed', 'refused')
order by i.place limit $2
