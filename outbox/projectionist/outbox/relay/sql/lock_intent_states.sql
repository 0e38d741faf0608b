-- Locks intents in order and reads their states.
select i.seq, i.key, coalesce(o.state, case i.state when 'open' then 'scheduled' else i.state end) as state, coalesce(o.error, i.error) as error,
    coalesce(o.attempt, i.attempt) as attempt
from {schema}.intents i left join {schema}.outbox o on o.seq = i.seq
where i.key = any ($1::text[])
order by i.seq
