-- The durable of every consumer, and the stream it reads.
select durable, stream from {schema}.consumers
