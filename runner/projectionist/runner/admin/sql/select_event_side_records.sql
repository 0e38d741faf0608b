-- What else is on record about one event, by consumer: arrivals under other sequences, quarantine, decisions, incidents,
-- and what it took back of intents that were scheduled.
select c.name as consumer, c.number, 'duplicate' as kind, u.received as at, u.incarnation, u.seq, null as what, null as who,
    null as why
from {schema}.consumers c
join {schema}.duplicates u on u.consumer = c.number and u.source = $1 and u.id = $2
union all
select c.name, c.number, 'quarantine', q.received, q.incarnation, q.seq, q.state || ': ' || q.reason, null, q.detail
from {schema}.consumers c
join {schema}.quarantine q on q.consumer = c.number and q.source = $1 and q.id = $2
union all
select c.name, c.number, 'decision', d.at, d.incarnation, d.seq, d.kind, d.actor, d.reason
from {schema}.consumers c
join {schema}.decisions d on d.consumer = c.number and (d.source = $1 and d.id = $2 or exists (
    select from {schema}.quarantine q where q.consumer = d.consumer and q.incarnation = d.incarnation and q.seq = d.seq
        and q.source = $1 and q.id = $2
))
union all
select c.name, c.number, 'incident', n.opened, n.incarnation, n.seq, n.kind, null, n.detail
from {schema}.consumers c
join {schema}.incidents n on n.consumer = c.number and n.source = $1 and n.id = $2
union all
select c.name, c.number, 'cancel', k.created, null, null,
    k.class || case when k.slot = k.class then '' else ' in slot ' || k.slot end || case
        when k.done is null then ': not applied yet'
        else format(': %s taken back, %s too late', k.hit, k.late)
    end, null, null
from {schema}.consumers c
join {schema}.cancels k on k.consumer = c.number and k.source = $1 and k.id = $2
order by consumer, at
