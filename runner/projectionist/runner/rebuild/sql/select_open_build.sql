-- The build that is open for a consumer, what it makes, and whether batches leave marks for it.
select b.number, b.consumer, t.view, b.kind, t.generation, b.phase, b.epoch, b.owner, t.revision, t.shape, t.code, t.base,
    b.incarnation, b.bulk_limit, b.buckets, b.finished, b.checkpoint, b.partial, coalesce(b.positions, b.number) as positions,
    c.build is not null as is_marked
from {schema}.builds b
join {schema}.build_views t on t.build = b.number
join {schema}.consumers c on c.number = b.consumer
where b.consumer = $1 and b.ended is null
