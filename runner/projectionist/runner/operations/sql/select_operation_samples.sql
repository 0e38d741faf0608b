-- The samples of an operation, in their order: how many items of each are in which state.
select i.alike, i.sample, i.judged, c.name as consumer, count(*) as items, count(*) filter (where i.state = 'done') as done,
    count(*) filter (where i.state = 'failed') as failed, count(*) filter (where i.state = 'refused') as refused,
    count(*) filter (where i.state = 'tried') as tried, count(*) filter (where i.state = 'left') as "left"
from {schema}.operation_items i left join {schema}.consumers c on c.number = i.consumer
where i.operation = $1
group by i.alike, i.sample, i.judged, c.name order by i.alike, i.sample
