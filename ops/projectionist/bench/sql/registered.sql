-- How the consumers of a scene are registered.
select number, durable from {schema}.consumers order by number
