-- What decides which rows of these consumers may go. An open build, and a generation that is kept, still ask for rows.
select c.number, c.name, c.stream, c.sequence, c.durable, c.incarnation, c.build is not null as building,
    coalesce(f.floor, 0) as floor, least(clock_timestamp(), $2::timestamptz) as now,
    (select min(b.started) from {schema}.generations g join {schema}.views v on v.number = g.view
        join {schema}.builds b on b.number = g.build where v.consumer = c.number and g.state = 'kept') as kept_since
from {schema}.consumers c
left join {schema}.floors f on f.consumer = c.number and f.durable = c.durable and f.incarnation = c.incarnation
where c.name = any($1::text[])
order by c.number
