-- The events that came in one trace, in the order in which they came, and the consumers that have them.
select i.source, i.id, min(i.type) as type, min(i.event_schema) as schema, min(i.aggregate) as aggregate, min(i.version) as version,
    min(i.correlation) as correlation, min(i.causation) as causation, split_part(min(i.traceparent), '-', 2) as trace,
    array_agg(i.consumer order by i.consumer) as consumers
from {schema}.inbox i
where split_part(i.traceparent, '-', 2) = $1 and i.traceparent is not null
group by i.source, i.id
order by min(i.received), min(i.seq), i.id, i.source limit $2
