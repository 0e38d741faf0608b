-- Statement 3 of the twin: takes identities, given in order; the command tag counts them.
insert into {schema}.inbox (
    consumer, batch, incarnation, source, id, state, seq, subject, type, event_schema, aggregate, version, hash, received
)
select $1, $2, $3, source, id, 'applied', seq, subject, type, 1, aggregate, version, hash, clock_timestamp()
from unnest(
    $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bytea[]
) as fresh (source, id, seq, subject, type, aggregate, version, hash)
on conflict do nothing
