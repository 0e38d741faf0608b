-- The sample that an operation is at, that of the first item which is neither done nor given up. Where that is the first of its
-- sample: how the sample before it in its group went, which has at most $2 items.
with waiting as (
    select alike, sample, place from {schema}.operation_items
    where operation = $1 and state = 'waiting' order by place limit 1
),
tried as (
    select alike, sample, place from {schema}.operation_items
    where operation = $1 and state = 'tried' order by place limit 1
),
here as (
    select alike, sample, place from (select * from waiting union all select * from tried) as open order by place limit 1
)
select here.alike, here.sample,
    exists (select from waiting where (waiting.alike, waiting.sample) = (here.alike, here.sample)) as waits,
    case when before.place = here.place - 1 then before.done else 0 end as before_done,
    case when before.place = here.place - 1 then before.failed else 0 end as before_failed
from here cross join lateral (
    select max(b.place) as place, count(*) filter (where b.state = 'done') as done, count(*) filter (where b.state = 'failed') as failed
    from {schema}.operation_items b
    where b.operation = $1 and b.place between here.place - $2::bigint and here.place - 1 and b.alike = here.alike
        and b.sample = here.sample - 1
) before
