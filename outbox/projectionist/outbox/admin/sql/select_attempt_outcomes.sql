-- How the last attempt of each of these intents has ended: the class of its error.
select i.key, a.outcome, a.status
from {schema}.intents i
cross join lateral (
    select outcome, status from {schema}.attempts where intent = i.seq order by attempt desc limit 1
) a
where i.key = any ($1::text[])
