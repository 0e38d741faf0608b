-- Claims identities, given in (source, id) order so that two claimers never wait crosswise. The command tag counts them.
insert into {schema}.inbox (
    consumer, batch, incarnation, source, id, state, seq, subject, type, event_schema, aggregate, version,
    correlation, causation, traceparent, tracestate, hash, received, data
)
select $1, $2, $3, source, id, state, seq, subject, type, event_schema, aggregate, version,
    correlation, causation, traceparent, tracestate, hash,
    timestamptz 'epoch' + received * interval '1 microsecond', data
from unnest(
    $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[], $10::integer[], $11::text[], $12::bigint[],
    $13::text[], $14::text[], $15::text[], $16::text[], $17::bytea[], $18::bigint[], $19::bytea[]
) as fresh (
    source, id, state, seq, subject, type, event_schema, aggregate, version,
    correlation, causation, traceparent, tracestate, hash, received, data
)
on conflict do nothing
