-- Writes an intent of a producer and puts it into the outbox, unless one of this key is there.
with written as (
    insert into {schema}.intents (
        key, consumer, source, id, aggregate, version, slot, class, provider, destination, ordering, on_dead, body, hash,
        traceparent, tracestate
    )
    values ($1, 0, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
    on conflict (key) do nothing
    returning seq, provider, destination, coalesce(ordering, key) as lane
)
insert into {schema}.outbox (seq, provider, destination, lane, place)
select seq, provider, destination, lane, seq from written
returning seq
