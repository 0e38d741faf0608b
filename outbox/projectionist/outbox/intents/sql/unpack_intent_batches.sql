-- Unpacks rows of staged intents, in the order they were written, one process after the other; counts the intents. Those
-- of one aggregate are staged while its position is locked: a process that sees a later row sees the earlier ones.
with unpacking as materialized (
    select pg_advisory_xact_lock($2::bigint)
),
taken as (
    delete from {schema}.staged_intents
    where seq in (select seq from {schema}.staged_intents, unpacking where refused is null order by seq limit $1)
    returning seq, consumer, incarnation, created, convert_from(encoded, 'UTF8')::jsonb as encoded
),
staged as materialized (
    select t.seq as batch, t.consumer, t.incarnation, t.created, w.*,
        substr(sha256(convert_to(w.body || coalesce(E'\ndue ' || w.due, ''), 'UTF8')), 1, 16) as hash
    from taken t
    cross join lateral rows from (
        jsonb_array_elements_text(t.encoded -> 'key'), jsonb_array_elements_text(t.encoded -> 'source'),
        jsonb_array_elements_text(t.encoded -> 'id'), jsonb_array_elements_text(t.encoded -> 'aggregate'),
        jsonb_array_elements_text(t.encoded -> 'version'), jsonb_array_elements_text(t.encoded -> 'slot'),
        jsonb_array_elements_text(t.encoded -> 'class_name'), jsonb_array_elements_text(t.encoded -> 'provider'),
        jsonb_array_elements_text(t.encoded -> 'destination'), jsonb_array_elements_text(t.encoded -> 'ordering'),
        jsonb_array_elements_text(t.encoded -> 'on_dead'), jsonb_array_elements_text(t.encoded -> 'body'),
        jsonb_array_elements_text(t.encoded -> 'traceparent'), jsonb_array_elements_text(t.encoded -> 'tracestate'),
        jsonb_array_elements_text(t.encoded -> 'seq'), jsonb_array_elements_text(t.encoded -> 'baggage'),
        jsonb_array_elements_text(t.encoded -> 'due'), jsonb_array_elements_text(t.encoded -> 'guard'),
        jsonb_array_elements_text(t.encoded -> 'expires_s'), jsonb_array_elements_text(t.encoded -> 'cancels'),
        jsonb_array_elements_text(t.encoded -> 'view'), jsonb_array_elements_text(t.encoded -> 'scope')
    ) with ordinality as w (
        key, source, id, aggregate, version, slot, class, provider, destination, ordering, on_dead, body,
        traceparent, tracestate, seq, baggage, due, guard, expires_s, cancels, view, scope, place
    )
),
written as (
    insert into {schema}.intents (
        consumer, key, source, id, aggregate, version, slot, class, provider, destination, ordering, on_dead, body, hash,
        traceparent, tracestate, baggage, created, scheduled, view, scope
    )
    select consumer, key, source, id, aggregate, version::bigint, slot, class, provider, destination, ordering, on_dead,
        convert_to(body, 'UTF8'), hash, traceparent, tracestate, baggage, created,
        due::timestamptz, view::integer, scope
    from staged
    where cancels is null
    order by batch, place
    on conflict (key) do nothing
    returning seq, key, provider, destination, coalesce(ordering, key) as lane, scheduled
),
opened as (
    insert into {schema}.outbox (seq, provider, destination, lane, place)
    select seq, provider, destination, lane, seq from written where scheduled is null
),
-- What is to be sent later waits beside the outbox: whoever leases meets none of it.
later as (
    insert into {schema}.schedule (
        intent, consumer, aggregate, version, class, slot, due, expires, guard, look
    )
    select distinct on (w.seq) w.seq, s.consumer, s.aggregate, s.version::bigint, s.class, s.slot, w.scheduled,
        w.scheduled + make_interval(secs => s.expires_s::float8), s.guard, w.scheduled
    from written w join staged s on s.key = w.key
    where w.scheduled is not null and s.due is not null
    order by w.seq, s.batch, s.place
),
taken_back as (
    insert into {schema}.cancels (
        key, consumer, source, id, aggregate, version, class, classes, slot, created, view
    )
    select key, consumer, source, id, aggregate, version::bigint, class,
        array(select jsonb_array_elements_text(cancels::jsonb)), slot, created, view::integer
    from staged
    where cancels is not null
    order by batch, place
    on conflict (key) do nothing
),
-- A key that was there already: with the same content it is the same intent, with another one the first stands.
reused as (
    insert into {schema}.incidents (consumer, incarnation, kind, seq, source, id, aggregate, version, detail)
    select w.consumer, w.incarnation, 'intent_reuse', w.seq::bigint, w.source, w.id, w.aggregate, w.version::bigint,
        'slot ' || w.slot || coalesce(' of row ' || w.scope, '') || ' of this event has an intent with other content; the first stands'
    from (select staged.*, first_value(hash) over (partition by key order by batch, place) as first from staged) as w
    left join {schema}.intents i on i.key = w.key
    where (select count(*) from written) < (select count(*) from staged) and w.cancels is null and w.hash <> coalesce(i.hash, w.first)
    on conflict do nothing
    returning consumer, id
)
select (select count(*) from staged) as opened,
    exists (select from staged where due is not null or cancels is not null) as timed,
    (select count(*) from reused) as reused, (select min(id) from reused) as first
