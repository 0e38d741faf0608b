-- The sample that an operation is at: the first that is not done with; and how the one before it in its group went.
select here.alike, here.sample, here.first, here.items, here.tried,
    here.items > here.tried + here.done + here.failed + here.refused + here.left_alone as waits,
    coalesce(before.done, 0) as before_done, coalesce(before.failed, 0) as before_failed
from (
    select * from {schema}.operation_samples where operation = $1 and open order by alike, sample limit 1
) here
left join {schema}.operation_samples before
    on before.operation = $1 and before.alike = here.alike and before.sample = here.sample - 1
