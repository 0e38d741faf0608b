-- The events of one correlation id, in the order in which they came, and the consumers that have them.
-- At most $3 rows of the inbox are read: of a flow that has more, some events, with all consumers that there are, as any may have them.
with rows as materialized (
    select * from {schema}.inbox where correlation = $1 limit $3::bigint + 1
),
bound as (
    select count(*) > $3::bigint as is_met, (select array_agg(number) from {schema}.consumers) as consumers from rows
)
select i.source, i.id, min(i.type) as type, min(i.event_schema) as schema, min(i.aggregate) as aggregate, min(i.version) as version,
    min(i.correlation) as correlation, min(i.causation) as causation, split_part(min(i.traceparent), '-', 2) as trace,
    case when b.is_met then b.consumers else array_agg(i.consumer order by i.consumer) end as consumers,
    count(*) over () as count, b.is_met as is_bounded
from rows i cross join bound b
group by i.source, i.id, b.is_met, b.consumers
order by min(i.received), min(i.seq), i.id, i.source limit $2
