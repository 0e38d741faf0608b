-- Writes an intent of a producer, unless one of this key is there, and puts it into the outbox; into the schedule where it
-- is to be sent later ($16), and not after $17.
with written as (
    insert into {schema}.intents (
        key, consumer, source, id, aggregate, version, slot, class, provider, destination, ordering, on_dead, body, hash,
        traceparent, tracestate, scheduled
    )
    values ($1, 0, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
    on conflict (key) do nothing
    returning seq, provider, destination, coalesce(ordering, key) as lane
),
later as (
    insert into {schema}.schedule (intent, consumer, aggregate, version, class, slot, due, expires, guard, look)
    select seq, 0, $4, $5, $7, $6, $16, $17, 'clock', $16 from written where $16::timestamptz is not null
),
opened as (
    insert into {schema}.outbox (seq, provider, destination, lane, place)
    select seq, provider, destination, lane, seq from written where $16::timestamptz is null
)
select seq from written
