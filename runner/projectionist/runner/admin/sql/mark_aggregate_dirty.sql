-- Marks an aggregate that an action has moved, if a build is open. Under the barrier, which keeps the slot from being flipped.
insert into {schema}.dirty_marks (consumer, slot, mark)
select number, slot, $2 from {schema}.consumers where number = $1 and build is not null
on conflict do nothing
