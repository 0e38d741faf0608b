-- One transaction an event: takes an identity; the command tag says whether it was new.
insert into {schema}.inbox (
    consumer, batch, incarnation, source, id, state, seq, subject, type, event_schema, aggregate, version, hash, received
)
values ($1, $2, $3, $4, $5, 'applied', $6, $7, $8, 1, $9, $10, $11, clock_timestamp())
on conflict do nothing
