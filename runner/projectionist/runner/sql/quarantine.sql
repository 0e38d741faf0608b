-- Puts aside what cannot be read or contradicts itself, in stream order.
insert into {schema}.quarantine (
    consumer, incarnation, seq, reason, detail, subject, source, id, aggregate, version, headers, data, size, hash
)
select $1, $2, seq, reason, detail, subject, source, id, aggregate, version, headers, data, size, hash
from unnest(
    $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[],
    $11::bytea[], $12::bytea[], $13::integer[], $14::bytea[]
) as bad (seq, reason, detail, subject, source, id, aggregate, version, headers, data, size, hash)
on conflict do nothing
returning seq
