-- Settles intents as an operator has decided; those that are scheduled leave the schedule.
with gone as (
    delete from {schema}.outbox where seq = any ($1::bigint[])
    returning seq, attempt, first_started, wire_hash, error
),
forgotten as (
    update {schema}.schedule set look = null where intent = any ($1) and look is not null
)
update {schema}.intents i
set state = $2, settled = clock_timestamp(), provider_id = $3, attempt = g.attempt, first_started = g.first_started,
    wire_hash = g.wire_hash, error = g.error
from unnest($1::bigint[]) as chosen (seq) left join gone g on g.seq = chosen.seq
where i.seq = chosen.seq
