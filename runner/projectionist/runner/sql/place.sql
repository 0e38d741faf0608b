-- A position for every aggregate seen for the first time: what does not exist cannot be locked.
insert into {schema}.positions (consumer, aggregate)
select $1, aggregate from unnest($2::text[]) as seen (aggregate)
on conflict do nothing
