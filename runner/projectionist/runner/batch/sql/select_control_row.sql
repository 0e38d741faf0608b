-- What holds for this batch, a row for each view that it writes, in the order of their locks. A statement of its own, after the
-- barrier: what it reads is newer than any wait.
select c.epoch, c.incarnation, c.paused, c.build, c.slot, c.repeats, v.number as view, v.generation, v.code, v.revision,
    v.effects_incarnation, v.effects_mark, v.own_type, v.own_since, b.state as breaker, b.runner as prober, b.reason as trouble
from {schema}.consumers c
left join {schema}.views v on v.consumer = c.number and v.state = 'live'
left join {schema}.consumer_breakers b on b.consumer = c.number and b.state <> 'closed'
where c.number = $1
order by v.number
