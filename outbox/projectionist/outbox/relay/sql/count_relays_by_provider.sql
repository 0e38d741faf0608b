-- Relays with a fresh heartbeat, by the providers they send for.
select provider, count(*) as n
from {schema}.relays, unnest(providers) as provider
where beat > clock_timestamp() - interval '1 minute'
group by provider
