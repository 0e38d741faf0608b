-- Every aggregate that does not stand where the live generation does, in the slot that is the builder's own.
insert into {schema}.dirty_marks (consumer, slot, mark)
select c.number, 1 - c.slot, p.aggregate
from {schema}.consumers c
join {schema}.positions p on p.consumer = c.number
left join {schema}.build_positions b on b.build = $2 and b.aggregate = p.aggregate
where c.number = $1 and p.version <> coalesce(b.version, $3)
on conflict do nothing
