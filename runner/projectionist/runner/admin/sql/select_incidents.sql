-- Incidents one by one, in the order in which they were opened.
select i.number, c.name as consumer, i.kind, i.incarnation, i.seq, i.source, i.id, i.aggregate, i.version, i.detail,
    i.opened, i.closed, i.settled
from {schema}.incidents i left join {schema}.consumers c on c.number = i.consumer
where ($1::text is null or c.name = $1) and ($2::text is null or i.kind = $2) and ($3 or i.closed is null)
    and ($4::bigint[] is null or i.number = any ($4))
order by i.number limit $5
