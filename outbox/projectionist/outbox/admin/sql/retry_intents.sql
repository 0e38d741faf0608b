-- Has intents sent again. One left to a person starts with no attempts; one that was passed goes to the end of its lane.
update {schema}.outbox
set state = 'ready', due = null, token = null, lease_until = null, open = true,
    place = case when open then place else nextval(pg_get_serial_sequence('{schema}.intents', 'seq')) end,
    epoch = (select epoch from {schema}.relay_owner),
    spent = case when state in ('dead', 'reconcile', 'unknown') then 0 else spent end,
    first_started = case when state not in ('dead', 'reconcile', 'unknown') then first_started end,
    doubted = doubted and state not in ('dead', 'reconcile', 'unknown')
where seq = any ($1::bigint[])
