-- Writes intents in their order, and opens them for the relay; the command tag counts those whose key is new.
with written as (
    insert into {schema}.intents (
        consumer, key, source, id, aggregate, version, slot, class, provider, destination, ordering, on_dead, body, hash,
        traceparent, tracestate
    )
    select $1, key, source, id, aggregate, version, slot, class, provider, destination, ordering, on_dead, body, hash,
        traceparent, tracestate
    from unnest(
        $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::text[], $10::text[],
        $11::text[], $12::text[], $13::bytea[], $14::bytea[], $15::text[], $16::text[]
    ) as wish (
        key, source, id, aggregate, version, slot, class, provider, destination, ordering, on_dead, body, hash,
        traceparent, tracestate
    )
    on conflict (key) do nothing
    returning seq, provider, destination, coalesce(ordering, key) as lane
)
insert into {schema}.outbox (seq, provider, destination, lane, place)
select seq, provider, destination, lane, seq from written
