-- What became of one event, by consumer; the process that did it, as long as it is remembered.
select c.name as consumer, c.number, c.stream, i.state, i.verdict, i.incarnation, i.seq, i.subject, i.type, i.event_schema as schema,
    i.aggregate, i.version, i.correlation, i.causation, i.traceparent, i.received, i.processed, i.batch, r.host, r.pid,
    case when i.state = 'applied' and c.own_type = split_part(i.aggregate, '/', 1)
        then substr(i.aggregate, length(c.own_type) + 2) end as row_key,
    case when i.state = 'applied' then array(select jsonb_object_keys(g.tables)) else '{}' end as tables
from {schema}.consumers c
join {schema}.inbox i on i.consumer = c.number and i.source = $1 and i.id = $2
left join {schema}.runners r on r.number = i.batch >> 32
left join {schema}.generations g on g.consumer = c.number and g.generation = c.generation
order by c.name
