-- The intents of one event, by consumer; number 0 stands for producers, which add theirs themselves.
select c.name as consumer, c.number, i.key, i.slot, i.class, i.provider, i.destination, coalesce(o.state, i.state) as state,
    i.created, i.settled, coalesce(o.error, i.error) as error
from (select number, name from {schema}.consumers union all select 0, 'a producer') c
join {schema}.intents i on i.consumer = c.number and i.source = $1 and i.id = $2
left join {schema}.outbox o on o.seq = i.seq
order by c.name, i.seq
