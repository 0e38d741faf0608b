-- Settles intents as an operator has decided.
with gone as (
    delete from {schema}.outbox where seq = any ($1::bigint[])
    returning seq, attempt, first_started, wire_hash, error
)
update {schema}.intents i
set state = $2, settled = clock_timestamp(), provider_id = $3, attempt = g.attempt, first_started = g.first_started,
    wire_hash = g.wire_hash, error = g.error
from gone g where i.seq = g.seq
