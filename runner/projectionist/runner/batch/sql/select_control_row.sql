-- What holds for this batch. A statement of its own, after the barrier: what it reads is newer than any wait.
select c.epoch, incarnation, generation, code, revision, paused, effects_incarnation, effects_mark, own_type, own_since,
    build, slot, repeats, b.state as breaker, b.runner as prober, b.reason as trouble
from {schema}.consumers c
left join {schema}.consumer_breakers b on b.consumer = c.number and b.state <> 'closed'
where c.number = $1
