-- Applies up to $1 open cancels, in their order: whatever has not begun of what they are about is taken back. What another
-- session holds, or has changed since this statement began, is judged at the next look, and its cancel stays open until then.
with asked as materialized (
    select * from {schema}.cancels where done is null order by seq limit $1 for update skip locked
),
aimed as materialized (
    select c.seq as cancel, c.key, s.intent
    from asked c
    join {schema}.schedule s on s.consumer = c.consumer and s.aggregate = c.aggregate
    join {schema}.intents i on i.seq = s.intent
    -- What says no view is from before views were on record, or was unpacked by an older process: its consumer had one.
    where (i.view = c.view or i.view is null or c.view is null)
        and s.slot = c.slot and s.class = any (c.classes) and s.version < c.version
),
free as materialized (
    select s.intent, s.promoted, s.look from {schema}.schedule s
    where s.intent = any (array(select intent from aimed))
    order by s.intent
    for update skip locked
),
waiting as materialized (
    select o.seq, o.state in ('ready', 'leased', 'held') and o.attempt = 0 as unbegun from {schema}.outbox o
    where o.seq = any (array(select intent from free where promoted is not null))
    order by o.seq
    for update skip locked
),
-- Taken back by the first cancel that is about it.
judged as materialized (
    select f.intent, i.state <> 'open' as settled, i.state = 'cancelled' as cancelled,
        case when i.state = 'open' and (f.promoted is null or w.unbegun)
            then (select min(a.cancel) from aimed a where a.intent = f.intent) end as taken
    from free f
    join {schema}.intents i on i.seq = f.intent
    left join waiting w on w.seq = f.intent
    where i.seq = any (array(select intent from free))
        and (i.state <> 'open' or (f.promoted is null and f.look is not null) or w.seq is not null)
),
gone as (
    delete from {schema}.outbox where seq = any (array(select intent from judged where taken is not null))
),
closed as (
    update {schema}.intents i set state = 'cancelled', settled = clock_timestamp(), cancelled_by = c.key
    from judged j join asked c on c.seq = j.taken
    where i.seq = j.intent and i.seq = any (array(select intent from judged where taken is not null))
),
forgotten as (
    update {schema}.schedule s set look = null
    where s.intent = any (array(select intent from judged where taken is not null or settled))
),
counted as (
    select c.seq, count(*) filter (where j.taken = c.seq) as hit,
        count(*) filter (where j.intent is not null and j.taken is null and not j.cancelled) as late,
        count(a.intent) = count(j.intent) as whole
    from asked c
    left join aimed a on a.cancel = c.seq
    left join judged j on j.intent = a.intent
    group by c.seq
),
told as (
    update {schema}.cancels c
    set hit = c.hit + n.hit, late = case when n.whole then n.late else c.late end,
        done = case when n.whole then clock_timestamp() end
    from counted n where c.seq = n.seq
    returning c.done
)
select count(*) as asked, count(*) filter (where done is null) as open from told
