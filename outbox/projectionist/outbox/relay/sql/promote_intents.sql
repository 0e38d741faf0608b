-- Has intents ($1) that are due enter the outbox, at the end of their lanes, in the order in which they are due. Nothing of a
-- consumer of which something staged up to $2 is still unopened: a Cancel may be in it. Nothing that an open Cancel may be about:
-- another session is just applying it, or has held the intent when it was to be applied. Those of an aggregate that waits ($3)
-- are looked at again after a tenth of the time that they are late, or $4 seconds, a minute at most.
-- What is promoted after a failover, and was not due before it, cannot have been sent before it.
with free as materialized (
    select s.intent, s.due from {schema}.schedule s
    where s.intent = any ($1::bigint[]) and s.promoted is null and s.look is not null
        and s.consumer <> all (array(select consumer from {schema}.staged_intents where seq <= $2))
        and (s.consumer, s.aggregate, s.slot) in (
            select consumer, aggregate, slot from {schema}.cancels where done is null
        ) is not true
    order by s.intent
    for update skip locked
),
placed as materialized (
    select intent, due, nextval(pg_get_serial_sequence('{schema}.intents', 'seq')) as place
    from (select intent, due from free order by due, intent) sorted
),
entered as (
    insert into {schema}.outbox (seq, provider, destination, lane, place, epoch)
    select i.seq, i.provider, i.destination, coalesce(i.ordering, i.key), p.place,
        (select epoch from {schema}.relay_owner where one and p.due > since)
    from placed p join {schema}.intents i on i.seq = p.intent
    where i.seq = any ($1) and i.state = 'open'
    returning seq
),
moved as (
    update {schema}.schedule s
    set promoted = clock_timestamp(), look = s.expires, guard = 'clock'
    where s.intent = any (array(select intent from free))
),
again as (
    update {schema}.schedule s
    set look = clock_timestamp() + make_interval(
        secs => least(60, greatest($4, extract(epoch from clock_timestamp() - s.due)::float8 / 10)))
    where s.intent = any ($3::bigint[]) and s.promoted is null and s.look is not null
)
select count(*) from entered
