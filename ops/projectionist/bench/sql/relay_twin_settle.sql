-- What the twin of the relay has sent.
with gone as (
    delete from {schema}.outbox where seq = any ($1::bigint[])
)
update {schema}.intents i
set state = 'sent', provider_id = r.provider_id, settled = clock_timestamp()
from unnest($1::bigint[], $2::text[]) as r (seq, provider_id)
where i.seq = any ($1) and i.seq = r.seq
