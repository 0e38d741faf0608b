-- The samples of an operation's first groups, in their order, and what became of their items.
select s.alike, s.sample, s.judged, c.name as consumer, s.items, s.done, s.failed, s.refused, s.tried, s.left_alone as "left"
from {schema}.operation_samples s left join {schema}.consumers c on c.number = s.consumer
where s.operation = $1 and s.alike <= $2::bigint
order by s.alike, s.sample
