-- How many intents were settled after the first batch was, and in how many seconds: no start of a process is in it.
select count(*) filter (where settled > began) as events, extract(epoch from max(settled) - began)::float8 as seconds
from {schema}.intents, (select min(settled) as began from {schema}.intents) as first
group by began
