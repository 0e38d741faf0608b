-- Claims identities, given in (source, id) order so that two claimers never wait crosswise. The command tag counts them.
-- What all of them share comes once, beside an empty array; an empty array of the others stands for nulls.
insert into {schema}.inbox (
    consumer, batch, incarnation, source, state, event_schema, id, seq, subject, type, aggregate, version,
    correlation, causation, traceparent, tracestate, hash, received, data
)
select $1, $2, $3, coalesce(source, $4), coalesce(state, $5), coalesce(event_schema, $6), id, seq, subject, type,
    aggregate, version, correlation, causation, traceparent, tracestate, hash,
    timestamptz 'epoch' + received * interval '1 microsecond', data
from unnest(
    $7::text[], $8::text[], $9::integer[], $10::text[], $11::bigint[], $12::text[], $13::text[], $14::text[],
    $15::bigint[], $16::text[], $17::text[], $18::text[], $19::text[], $20::bytea[], $21::bigint[], $22::bytea[]
) as fresh (
    source, state, event_schema, id, seq, subject, type, aggregate, version,
    correlation, causation, traceparent, tracestate, hash, received, data
)
on conflict do nothing
