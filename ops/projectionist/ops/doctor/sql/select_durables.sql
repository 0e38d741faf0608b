-- The durable of every consumer, and the stream it reads.
select name, durable, stream from {schema}.consumers
