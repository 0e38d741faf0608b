-- Removes operations that ended before a time, with their items, at most so many; how many went.
with old as (
    select number from {schema}.operations where ended < $1 order by number limit $2
),
gone as (
    delete from {schema}.operations o using old where o.number = old.number returning 1
)
select count(*) from gone
