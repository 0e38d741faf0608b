-- Puts aside what cannot be read or contradicts itself, in stream order. Where $17 entries stand already, what comes is kept as a
-- reference: its bytes are in the stream, at (incarnation, seq).
with held as (
    select count(*) as n from (
        select from {schema}.quarantine where consumer = $1 and state = 'quarantined' limit $17
    ) counted
)
insert into {schema}.quarantine (
    consumer, incarnation, code, seq, reason, detail, subject, source, id, aggregate, version, headers, data, size, hash, due
)
select $1, $2, $3, seq, reason, detail, subject, source, id, aggregate, version,
    case when held.n + place <= $17 then headers end, case when held.n + place <= $17 then data end, size, hash,
    clock_timestamp() + again_s * interval '1 second'
from held, unnest(
    $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::bigint[],
    $12::bytea[], $13::bytea[], $14::integer[], $15::bytea[], $16::float8[]
) with ordinality as bad (
    seq, reason, detail, subject, source, id, aggregate, version, headers, data, size, hash, again_s, place
)
on conflict do nothing
returning seq
