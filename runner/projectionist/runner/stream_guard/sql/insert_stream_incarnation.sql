-- The next incarnation of a stream, unless another consumer has brought it about already.
insert into {schema}.streams (name, incarnation, created)
select $1, coalesce(max(incarnation), 0) + 1, $2 from {schema}.streams where name = $1
having count(*) filter (where incarnation > $3 and created = $2) = 0
