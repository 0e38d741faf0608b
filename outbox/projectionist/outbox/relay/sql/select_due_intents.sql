-- Looks at the schedule: up to $1 intents that may be due, each with what is to become of it, and when the next one is; all of
-- one snapshot. What a Cancel that was committed before has to say is staged up to `newest`, or stands in `cancels`: who
-- opens and applies that first, promotes nothing that was taken back in time. The time is that of the transaction, which
-- begins before its snapshot is taken.
with now as materialized (
    select transaction_timestamp() as t, coalesce((select max(seq) from {schema}.staged_intents), 0) as newest
),
reader as materialized (
    select c.number, c.durable, c.incarnation from {schema}.consumers c
    where c.number <> all (array(select consumer from {schema}.staged_intents where refused is not null))
),
line as materialized (
    select 0 as consumer, 'clock' as guard, now.t as until from now
    union all
    select c.number, 'clock', now.t from now, reader c
    union all
    select c.number, 'caught_up', least(now.t, f.caught_up)
    from now, reader c
    join {schema}.floors f
        on f.consumer = c.number and f.durable = c.durable and f.incarnation = c.incarnation and f.caught_up is not null
),
later as (
    select min(head.look) as look
    from line
    cross join lateral (
        select s.look from {schema}.schedule s
        where s.consumer = line.consumer and s.guard = line.guard and s.look > (select t from now)
        order by s.look limit 1
    ) head
),
found as (
    select head.*
    from line
    cross join lateral (
        select s.intent, s.consumer, s.aggregate, s.guard, s.look, s.expires from {schema}.schedule s
        where s.consumer = line.consumer and s.guard = line.guard and s.look <= line.until
        order by s.look limit $1
    ) head
    order by head.look
    limit $1
)
select now.newest, exists (select from {schema}.cancels where done is null) as cancels,
    (select extract(epoch from look - now.t)::float8 from later) as next_s,
    f.intent,
    case
        when f.intent is null then null
        when f.expires <= now.t then 'expired'
        when f.guard = 'caught_up' and exists (
            select from {schema}.parked p
            where p.consumer = f.consumer and p.aggregate = f.aggregate and p.ordered
        ) then 'parked'
        else 'able'
    end as verdict
from now left join found f on true
order by f.look, f.intent
