-- How the one consumer of a scene is registered.
select number, durable from {schema}.consumers
