-- Puts aside what cannot be read or contradicts itself, in stream order.
insert into {schema}.quarantine (
    consumer, incarnation, code, seq, reason, detail, subject, source, id, aggregate, version, headers, data, size, hash, due
)
select $1, $2, $3, seq, reason, detail, subject, source, id, aggregate, version, headers, data, size, hash,
    clock_timestamp() + again_s * interval '1 second'
from unnest(
    $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::bigint[],
    $12::bytea[], $13::bytea[], $14::integer[], $15::bytea[], $16::float8[]
) as bad (seq, reason, detail, subject, source, id, aggregate, version, headers, data, size, hash, again_s)
on conflict do nothing
returning seq
