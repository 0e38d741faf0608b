-- Removes operations that ended before a time, with their items, the oldest first: at most so many ($2), and, but for the first, no
-- more than have so many items ($3) together. How many went.
with old as (
    select number, sum(matched) over (order by number) as items
    from (select number, matched from {schema}.operations where ended < $1 order by number limit $2) few
),
gone as (
    delete from {schema}.operations o using old
    where o.number = old.number and (old.items <= $3 or o.number = (select min(number) from old))
    returning 1
)
select count(*) from gone
