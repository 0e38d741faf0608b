-- Marks for the open build what has moved, in one order. The builder empties the other slot.
insert into {schema}.dirty_marks (consumer, slot, mark)
select $1, $2, mark from unnest($3::text[]) as moved (mark)
on conflict do nothing
