-- Relays that have not recorded their end, and for how long each has been silent.
select host, pid, providers, started, extract(epoch from clock_timestamp() - beat)::float8 as silent_s
from {schema}.relays order by started, instance
