-- Aggregates that the builder itself has to look at again, in the slot that is its own.
insert into {schema}.dirty (consumer, slot, mark)
select c.number, 1 - c.slot, mark
from {schema}.consumers c cross join unnest($2::text[]) as moved (mark) where c.number = $1
on conflict do nothing
