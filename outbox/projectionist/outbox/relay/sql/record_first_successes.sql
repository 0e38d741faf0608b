-- Writes successes at the first attempt into the intents' own rows: they need no history beside it.
with gone as (
    delete from {schema}.outbox o
    where o.seq = any ($2::bigint[]) and o.attempt = 1 and o.state = 'started'
    returning o.seq
)
update {schema}.intents i
set state = 'sent', attempt = 1, settled = clock_timestamp(), memory_s = $1, first_started = r.first_started,
    wire_hash = r.wire_hash, status = r.status, provider_id = r.provider_id, excerpt = r.excerpt
from unnest($2::bigint[], $3::timestamptz[], $4::bytea[], $5::text[], $6::text[], $7::text[])
    as r (seq, first_started, wire_hash, status, provider_id, excerpt)
where i.seq = any (array(select seq from gone)) and i.seq = r.seq
returning i.seq
