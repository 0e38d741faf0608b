-- What a waiter has to know of a consumer: which incarnation of its stream it is in, and when that was created.
select c.number, c.incarnation, s.created
from {schema}.consumers c
left join {schema}.streams s on s.name = c.stream and s.incarnation = c.incarnation
where c.name = $1
