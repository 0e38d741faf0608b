-- When the stream that is read was created, and the lowest sequence of which retention has removed a row (0: of an earlier
-- stream; null: none).
select (select s.created from {schema}.streams s where s.name = c.stream and s.incarnation = c.incarnation) as created,
    (select min(f.purged_from) from {schema}.floors f where f.consumer = c.number) as purged_from
from {schema}.consumers c where c.number = $1
