-- What became of one event, by consumer and view, in the inbox or in the archive; the process that did it, as long as it is remembered.
-- $3: rows that were found in files of the archive.
select c.name as consumer, case when v.name = c.name then c.name else c.name || '.' || v.name end as view, c.number, v.kind, v.code, c.incarnation as current, c.stream, i.data, i.state, i.verdict, i.incarnation, i.seq, i.subject, i.type, i.event_schema as schema,
    i.aggregate, i.version, i.correlation, i.causation, i.traceparent, i.received, i.processed, i.batch, r.host, r.pid,
    coalesce(i.idle, false) as idle, i.archived,
    case when i.state = 'applied' and v.own_type = split_part(i.aggregate, '/', 1) then own.row_key end as row_key,
    case when i.state = 'applied' and not coalesce(i.idle, false) then array(select jsonb_object_keys(g.tables)) else '{}' end as tables
from {schema}.consumers c
join {schema}.views v on v.consumer = c.number and v.state <> 'retired'
cross join lateral (
    select * from (
        select i.*, false as archived from {schema}.inbox i where i.consumer = c.number and i.source = $1 and i.id = $2
        union all
        select kept.*, true from {schema}.archive a cross join lateral jsonb_populate_record(null::{schema}.inbox, a.content) kept
        where a.kind = 'inbox' and a.content ->> 'id' = $2 and a.content ->> 'source' = $1 and a.consumer = c.number
        union all
        select filed.*, true from jsonb_populate_recordset(null::{schema}.inbox, $3::jsonb) filed
        where filed.consumer = c.number and filed.source = $1 and filed.id = $2
    ) known order by archived limit 1
) i
left join {schema}.runners r on r.number = i.batch >> 32
left join {schema}.generations g on g.view = v.number and g.generation = v.generation
cross join lateral (select substr(i.aggregate, length(v.own_type) + 2)) id (own)
cross join lateral (
    -- Of a key of several columns the event's aggregate is the first.
    select case when jsonb_path_exists(g.tables, '$.*.columns[*].rank ? (@ > 0)')
        then '[' || to_json(id.own)::text || ', …]' else id.own end
) own (row_key)
order by c.name, v.number
