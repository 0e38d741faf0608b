-- From here on the consumer reads the newest incarnation of its stream that was created then.
update {schema}.consumers c
set incarnation = s.incarnation, epoch = epoch + (s.incarnation <> c.incarnation)::integer
from (select max(incarnation) as incarnation from {schema}.streams where name = $2 and created = $3) s
where c.number = $1
returning s.incarnation
