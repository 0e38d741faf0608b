-- Every decision about a consumer's events, in the order in which they were made; about what stood in quarantine, those
-- of the present incarnation of the stream.
select d.number, d.kind, d.aggregate, d.version, d.upto, d.source, d.id, d.seq, d.headers, d.data
from {schema}.decisions d join {schema}.consumers c on c.number = d.consumer
where d.consumer = $1 and (d.incarnation is null or d.incarnation = c.incarnation) order by d.number
