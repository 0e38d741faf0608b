-- The events that came in one trace, in the order in which they came.
select i.source, i.id, i.type, i.aggregate, i.version, i.causation, min(i.received) as received,
    string_agg(c.name || ': ' || i.state, ', ' order by c.name) as consumers
from {schema}.inbox i join {schema}.consumers c on c.number = i.consumer
where split_part(i.traceparent, '-', 2) = $1 and i.traceparent is not null
group by i.source, i.id, i.type, i.aggregate, i.version, i.causation
order by min(i.received), i.id limit $2
