-- Writes successes at the first attempt, which the intent's own row tells of: they need no history beside it.
update {schema}.intents i
set state = 'sent', open = false, due = null, token = null, lease_until = null, settled = clock_timestamp(),
    status = r.status, provider_id = r.provider_id, excerpt = r.excerpt, error = null, memory_s = $1
from unnest($2::bigint[], $3::text[], $4::text[], $5::text[]) as r (seq, status, provider_id, excerpt)
where i.seq = any ($2) and i.seq = r.seq and i.attempt = 1 and i.state = 'started'
returning i.seq
