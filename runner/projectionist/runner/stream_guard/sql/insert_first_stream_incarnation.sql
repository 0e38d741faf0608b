-- A stream under this name that was created then: known, or the next incarnation.
insert into {schema}.streams (name, incarnation, created)
select $1, coalesce(max(incarnation), 0) + 1, $2 from {schema}.streams where name = $1
having count(*) filter (where created = $2) = 0
on conflict do nothing
