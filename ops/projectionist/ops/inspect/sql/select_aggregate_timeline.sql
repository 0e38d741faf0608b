-- What happened to one aggregate ("type/id"): its events at every consumer, the intents they caused, the attempts of those.
with events as (
    select c.name as who, i.* from {schema}.inbox i join {schema}.consumers c on c.number = i.consumer
    where i.aggregate = $1
),
wishes as (
    select n.*, e.seq as event_seq, e.who, coalesce(o.state, n.state) as now,
        coalesce(o.attempt, n.attempt) as last_attempt
    from events e
    join {schema}.intents n on n.consumer = e.consumer and n.source = e.source and n.id = e.id
    left join {schema}.outbox o on o.seq = n.seq
)
select * from (
    select seq as place, who, 0 as depth, type || coalesce(' v' || version, '') as name, state,
        received as start, processed as over, id, null::text as key, null::text as said, traceparent
    from events
    union all
    select event_seq, who, 1, 'intent ' || class, now, created, settled, id, key,
        nullif(concat_ws(' ', 'attempt', last_attempt, status), 'attempt'), traceparent
    from wishes
    union all
    select w.event_seq, 'relay', 2, 'attempt ' || a.attempt || ' at ' || w.provider, a.outcome, a.started,
        a.started + make_interval(secs => a.took_s), w.id, w.key, a.reason, w.traceparent
    from wishes w join {schema}.attempts a on a.intent = w.seq
    union all
    select w.event_seq, 'relay', 2, 'attempt 1 at ' || w.provider, 'sent', w.first_started, w.settled, w.id, w.key,
        w.status, w.traceparent
    from wishes w
    where w.state = 'sent' and w.attempt = 1 and w.first_started is not null
        and not exists (select from {schema}.attempts a where a.intent = w.seq)
) story
order by place, who = 'relay', who, depth, start
