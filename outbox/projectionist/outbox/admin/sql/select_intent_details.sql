-- Everything about one intent but its content and its history; an open one is as the outbox has it.
select i.seq, i.key, coalesce(o.state, case i.state when 'open' then 'scheduled' else i.state end) as state, c.name as consumer, i.source, i.id, i.aggregate, i.version,
    i.slot, i.scope, i.class, i.provider, i.destination, i.ordering, i.on_dead, i.created, i.traceparent,
    coalesce(o.attempt, i.attempt) as attempt, o.spent, coalesce(o.first_started, i.first_started) as first_started,
    o.due, o.lease_until, i.scheduled, w.waits_for, w.caught_up, w.expires, i.cancelled_by as cancel, k.source as cancelled_by_source,
    k.id as cancelled_by, i.settled, i.memory_s, i.status, i.provider_id, i.excerpt, coalesce(o.error, i.error) as error,
    b.state as circuit, b.held, i.hash, coalesce(o.wire_hash, i.wire_hash) as wire_hash, i.body
from {schema}.intents i
left join {schema}.outbox o on o.seq = i.seq
left join {schema}.circuits b on b.provider = i.provider and b.destination = i.destination
left join {schema}.consumers c on c.number = i.consumer
left join {schema}.schedule_seen w on w.intent = i.seq
left join {schema}.cancels k on k.key = i.cancelled_by
where i.key = $1
