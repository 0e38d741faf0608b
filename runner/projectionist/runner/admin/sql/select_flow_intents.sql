-- The intents of events ($1 to $3: consumer, source, id), those of a consumer 0 added by a producer itself.
select i.source, i.id, coalesce(c.name, 'a producer') as consumer, i.key, i.slot, i.scope, i.class, i.provider, i.destination,
    coalesce(o.state, case i.state when 'open' then 'scheduled' else i.state end) as state, i.created, i.settled, i.scheduled,
    w.waits_for, k.id as cancelled_by, coalesce(o.error, i.error) as error
from unnest($1::integer[], $2::text[], $3::text[]) asked (consumer, source, id)
join {schema}.intents i on i.consumer = asked.consumer and i.source = asked.source and i.id = asked.id
left join {schema}.consumers c on c.number = i.consumer
left join {schema}.outbox o on o.seq = i.seq
left join {schema}.schedule_seen w on w.intent = i.seq
left join {schema}.cancels k on k.key = i.cancelled_by
order by i.seq
