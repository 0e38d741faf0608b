-- The build that is open for a consumer, and whether batches leave marks for it.
select b.number, b.consumer, b.kind, b.phase, b.epoch, b.owner, b.incarnation, b.bulk_limit, b.buckets, b.finished, b.checkpoint,
    b.partial, coalesce(b.positions, b.number) as positions, c.build is not null as is_marked
from {schema}.builds b join {schema}.consumers c on c.number = b.consumer
where b.consumer = $1 and b.ended is null
