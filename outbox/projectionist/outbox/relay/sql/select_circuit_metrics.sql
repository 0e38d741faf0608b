-- Destinations that get no intents now, by provider and reason.
select provider, coalesce(held, state) as state, count(*) as n
from {schema}.circuits where held is not null or state <> 'closed' group by 1, 2
