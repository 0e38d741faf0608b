-- A position for every aggregate seen for the first time, at $3: what does not exist cannot be locked.
insert into {schema}.positions (consumer, aggregate, version)
select $1, aggregate, $3 from unnest($2::text[]) as seen (aggregate)
on conflict do nothing
