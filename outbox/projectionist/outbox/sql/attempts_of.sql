-- The attempts of one intent that have ended, in order.
select attempt, relay, started, took_s, outcome, status, provider_id, reason, excerpt, replayed
from {schema}.attempts where intent = $1 order by attempt
