-- A past: $2 events of this consumer that were settled long ago, ten of each order, their ids before those of the load or in
-- no order.
insert into {schema}.inbox (
    consumer, batch, incarnation, source, id, state, seq, subject, type, event_schema, aggregate, version, hash, received, processed
)
select $1, 0, 1, $3,
    case when $4::boolean then md5(n::text)::uuid::text else lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000' end,
    'applied', n - $2, 'past', 'order.changed', 1, '/' || lpad((n / 10)::text, 10, '0'), n % 10 + 1,
    decode(md5(n::text), 'hex'), timestamptz '2024-01-01', timestamptz '2024-01-01'
from generate_series(1, $2::bigint) as n
