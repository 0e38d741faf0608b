-- A view by its name, or by that of its set and its own; what else batches write beside it, which of that looks it up, and what
-- it has scheduled.
select c.number, c.name, v.number as view, v.name as view_name, v.state,
    (select count(*) from {schema}.views o where o.consumer = c.number and o.number <> v.number and o.state = 'live') as others,
    array(
        select o.name from {schema}.views o
        where o.consumer = c.number and v.name = any (o.looks_up) and o.state in ('live', 'joining')
        order by o.name
    ) as lookers,
    exists (
        select from {schema}.builds b join {schema}.build_views t on t.build = b.number
        where b.consumer = c.number and b.ended is null and t.view = v.number
    ) as is_built,
    (
        select count(*) from {schema}.schedule s join {schema}.intents i on i.seq = s.intent
        where s.consumer = c.number and i.view = v.number and s.look is not null and s.promoted is null
    ) as scheduled
from {schema}.views v join {schema}.consumers c on c.number = v.consumer
where v.name = $1 or c.name || '.' || v.name = $1
