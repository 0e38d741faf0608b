-- What waits for its time, by consumer and by what it waits for, and since when the first of it has been due; of very many the
-- first ones.
select name as consumer, waits_for, count(*) as n, extract(epoch from clock_timestamp() - min(due))::float8 as late_s
from (select name, waits_for, due from {schema}.schedule_seen limit $1) few
group by name, waits_for
order by name, waits_for
