-- Discards intents ($1) that were to be sent until now at the latest, unless an attempt has begun. What another session holds
-- is judged at the next look.
with free as materialized (
    select s.intent, s.promoted from {schema}.schedule s
    where s.intent = any ($1::bigint[]) and s.look is not null and s.expires <= clock_timestamp()
    order by s.intent
    for update skip locked
),
waiting as materialized (
    select o.seq, o.state in ('ready', 'leased', 'held') and o.attempt = 0 as unbegun from {schema}.outbox o
    where o.seq = any (array(select intent from free where promoted is not null))
    order by o.seq
    for update skip locked
),
judged as materialized (
    select f.intent, i.state = 'open' and (f.promoted is null or w.unbegun) as over
    from free f
    join {schema}.intents i on i.seq = f.intent
    left join waiting w on w.seq = f.intent
    where i.seq = any (array(select intent from free)) and (i.state <> 'open' or f.promoted is null or w.seq is not null)
),
gone as (
    delete from {schema}.outbox where seq = any (array(select intent from judged where over))
),
closed as (
    update {schema}.intents set state = 'discarded', settled = clock_timestamp(), error = 'expired before it was sent'
    where seq = any (array(select intent from judged where over))
),
forgotten as (
    update {schema}.schedule s set look = null where s.intent = any (array(select intent from judged))
)
select count(*) filter (where over) from judged
