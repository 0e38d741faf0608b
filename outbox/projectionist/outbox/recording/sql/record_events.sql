-- Raises an aggregate's version from the one that its writer expects, and writes the events as intents of a producer; counts
-- them. Nothing where another writer was first, or an id is known. Its parameter is one JSON document: any driver can pass it.
with given as materialized (
    select d, d ->> 'stream' as stream, d ->> 'aggregate' as aggregate, (d ->> 'expected')::bigint as expected,
        (d ->> 'expected')::bigint + jsonb_array_length(d -> 'keys') as version
    from (select cast($1 as text)::jsonb as d) as document
),
known as (
    select from {schema}.intents where key = any (array(select jsonb_array_elements_text(d -> 'keys') from given))
),
began as (
    insert into {schema}.recorded_aggregates (stream, aggregate, version)
    select stream, aggregate, version from given where expected = 0 and not exists (select from known)
    on conflict do nothing
    returning version
),
raised as (
    update {schema}.recorded_aggregates r set version = g.version
    from given g
    where r.stream = g.stream and r.aggregate = g.aggregate and r.version = g.expected and not exists (select from known)
    returning r.version
),
events as materialized (
    select g.d, g.aggregate, g.stream, e.key, e.id, e.class, e.body, convert_to(e.wire, 'UTF8') as wire, e.place,
        g.expected + e.place as version
    from given g
    cross join lateral rows from (
        jsonb_array_elements_text(d -> 'keys'), jsonb_array_elements_text(d -> 'ids'),
        jsonb_array_elements_text(d -> 'classes'), jsonb_array_elements_text(d -> 'bodies'),
        jsonb_array_elements_text(d -> 'wires')
    ) with ordinality as e (key, id, class, body, wire, place)
    where exists (select from began) or exists (select from raised)
),
written as (
    insert into {schema}.intents (
        key, consumer, source, id, aggregate, version, slot, class, provider, destination, ordering, on_dead, body, hash,
        traceparent, tracestate
    )
    select key, 0, d ->> 'source', id, aggregate, version, class, class, stream, stream, d ->> 'ordering', 'block',
        convert_to(body, 'UTF8'), substr(sha256(convert_to(body, 'UTF8')), 1, 16), d ->> 'traceparent', d ->> 'tracestate'
    from events
    order by place
    returning seq, key
),
opened as (
    insert into {schema}.outbox (seq, provider, destination, lane, place, wire, wire_hash)
    select w.seq, e.stream, e.stream, e.d ->> 'ordering', w.seq, e.wire, substr(sha256(e.wire), 1, 16)
    from written w join events e on e.key = w.key
)
select count(*)::text from written
