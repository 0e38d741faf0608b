-- What operators look at: parked events and quarantine, with one word on why each waits.

-- Errors that differ in a number or a quoted value alone are one group.
create function {schema}.alike(message text) returns text language sql immutable parallel safe as $$
    select left(regexp_replace(split_part(message, E'\n', 1), $r$'[^']*'|"[^"]*"|[0-9]+$r$, '…', 'g'), 200)
$$;

create function {schema}.first_line(message text) returns text language sql immutable parallel safe as $$
    select split_part(message, E'\n', 1)
$$;

create view {schema}.parked_seen as
select e.consumer, c.name, e.incarnation, e.seq, e.source, e.id, e.cause, e.type, e.aggregate, e.version, e.ordered,
    e.discarded, e.attempts, e.budget, e.due, e.parked_at, e.first_failed, e.last_failed, p.version as position, p.head, p.finding,
    case
        when e.discarded then 'discarded: stepped over in its turn'
        when e.cause = 'failed' then coalesce(e.error_class || ': ', '') || coalesce({schema}.alike(e.error), '')
        when e.cause = 'blocked' then 'behind an event that failed'
        when e.cause = 'gap' then 'behind missing versions' || coalesce(': ' || p.finding, '')
        else 'stored, not applied yet'
    end as why,
    -- What its aggregate waits for, or itself: this is what retry, skip and accept-gap are about.
    case
        when not e.ordered then e.cause = 'failed' and not e.discarded
        when p.head in ('failed', 'waiting') and p.finding is null then e.cause = 'failed'
        else p.head in ('gap', 'waiting') and not exists (
            select from {schema}.parked o
            where o.consumer = e.consumer and o.aggregate = e.aggregate and o.ordered and o.version < e.version
        )
    end as heads,
    case when e.ordered then p.head = 'waiting' and (e.cause = 'failed' or p.finding is not null)
        else e.cause = 'failed' and e.due is null and not e.discarded
    end as waits,
    case when e.ordered then p.due else e.due end as next_try,
    case when e.cause = 'failed' and not e.discarded
        then coalesce(e.error_class || ': ', '') || coalesce({schema}.first_line(e.error), '')
    end as own
from {schema}.parked e
join {schema}.consumers c on c.number = e.consumer
left join {schema}.positions p on p.consumer = e.consumer and p.aggregate = e.aggregate and e.ordered;
comment on view {schema}.parked_seen is 'Parked events as operators see them: why each waits, and for whom.';

create view {schema}.quarantine_seen as
select q.consumer, c.name, q.incarnation, q.seq, q.reason as cause, {schema}.alike(q.detail) as why, q.state, q.subject,
    q.source, q.id, q.aggregate, q.version, q.attempts, q.due, q.size, q.received,
    {schema}.first_line(q.detail) as own
from {schema}.quarantine q join {schema}.consumers c on c.number = q.consumer;
comment on view {schema}.quarantine_seen is 'Quarantine as operators see it.';
