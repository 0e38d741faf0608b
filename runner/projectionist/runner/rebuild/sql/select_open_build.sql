-- The build that is open for a consumer.
select number, consumer, kind, generation, phase, epoch, owner, revision, shape, code, base, incarnation, floor, buckets, finished,
    checkpoint, partial, coalesce(positions, number) as positions
from {schema}.builds where consumer = $1 and ended is null
