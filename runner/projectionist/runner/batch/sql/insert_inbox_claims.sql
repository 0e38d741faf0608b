-- Claims identities, given in (source, id) order so that two claimers never wait crosswise. The command tag counts them.
-- What all of them share comes once, beside an empty array; an empty array of the others stands for nulls. Columns of
-- printable text come as one text each, their values divided by U+001F, with U+001E for a null.
insert into {schema}.inbox (
    consumer, batch, incarnation, source, state, event_schema, id, seq, subject, type, aggregate, version,
    correlation, causation, traceparent, tracestate, hash, received, data
)
select $1, $2, $3, coalesce(source, $4), coalesce(state, $5), coalesce(event_schema, $6), id, seq, subject, type,
    aggregate, version, correlation, causation, traceparent, tracestate, hash,
    timestamptz 'epoch' + received * interval '1 microsecond', data
from unnest(
    $7::text[], $8::text[], $9::integer[], string_to_array($10, e'\x1f'), $11::bigint[],
    string_to_array($12, e'\x1f'), string_to_array($13, e'\x1f'), string_to_array($14, e'\x1f', e'\x1e'), $15::bigint[],
    string_to_array($16, e'\x1f', e'\x1e'), string_to_array($17, e'\x1f', e'\x1e'),
    string_to_array($18, e'\x1f', e'\x1e'), string_to_array($19, e'\x1f', e'\x1e'),
    $20::bytea[], $21::bigint[], $22::bytea[]
) as fresh (
    source, state, event_schema, id, seq, subject, type, aggregate, version,
    correlation, causation, traceparent, tracestate, hash, received, data
)
on conflict do nothing
