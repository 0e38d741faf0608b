-- Without order, what live has applied beyond the floor is marked as if it had been applied while the build was open.
insert into {schema}.dirty_marks (consumer, slot, mark)
select i.consumer, c.slot, i.seq::text
from {schema}.inbox i join {schema}.consumers c on c.number = i.consumer
where i.consumer = $1 and i.seq > $2 and i.incarnation = $3 and i.state in ('applied', 'ignored')
order by i.seq::text
on conflict do nothing
