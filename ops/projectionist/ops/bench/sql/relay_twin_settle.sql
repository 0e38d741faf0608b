-- What the twin of the relay has sent.
update {schema}.intents i
set state = 'sent', open = false, token = null, lease_until = null, provider_id = r.provider_id, settled = clock_timestamp()
from unnest($1::bigint[], $2::text[]) as r (seq, provider_id)
where i.seq = any ($1) and i.seq = r.seq
