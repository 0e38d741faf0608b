-- Has intents sent again. One left to a person starts with no attempts; one that was passed goes to the end of its lane. One
-- that is scheduled enters its lane now, and does not expire.
with again as (
    update {schema}.outbox
    set state = 'ready', due = null, token = null, lease_until = null, open = true,
        place = case when open then place else nextval(pg_get_serial_sequence('{schema}.intents', 'seq')) end,
        epoch = (select epoch from {schema}.relay_owner),
        spent = case when state in ('dead', 'reconcile', 'unknown') then 0 else spent end,
        first_started = case when state not in ('dead', 'reconcile', 'unknown') then first_started end,
        doubted = doubted and state not in ('dead', 'reconcile', 'unknown')
    where seq = any ($1::bigint[])
),
entering as (
    update {schema}.schedule set promoted = clock_timestamp(), look = null
    where intent = any ($1) and promoted is null and look is not null
    returning intent
)
insert into {schema}.outbox (seq, provider, destination, lane, place, epoch)
select i.seq, i.provider, i.destination, coalesce(i.ordering, i.key),
    nextval(pg_get_serial_sequence('{schema}.intents', 'seq')), (select epoch from {schema}.relay_owner)
from entering e join {schema}.intents i on i.seq = e.intent
