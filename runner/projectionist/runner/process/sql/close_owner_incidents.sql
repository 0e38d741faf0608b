-- Closes what was told of a durable or a database in other hands, by whoever serves the consumer over a durable of this database.
update {schema}.incidents i set closed = clock_timestamp(), settled = format('durable %s is this database''s', c.durable)
from {schema}.consumers c
where i.consumer = $1 and c.number = i.consumer and i.kind in ('database_copied', 'durable_taken') and i.closed is null
returning i.number, i.kind, i.settled
