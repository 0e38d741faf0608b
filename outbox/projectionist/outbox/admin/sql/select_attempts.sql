-- The attempts of one intent that have ended, in order: its history, or its own row if the first one was the last.
select attempt, relay, started, took_s, outcome, status, provider_id, reason, excerpt, replayed
from {schema}.attempts where intent = $1
union all
select i.attempt, null, i.first_started, extract(epoch from i.settled - i.first_started)::float8, 'sent', i.status,
    i.provider_id, null, i.excerpt, false
from {schema}.intents i
where i.seq = $1 and i.state = 'sent' and i.attempt = 1
    and not exists (select from {schema}.attempts a where a.intent = $1)
order by attempt
