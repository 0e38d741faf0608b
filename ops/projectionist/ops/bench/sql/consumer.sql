-- The number of a consumer.
select number from {schema}.consumers where name = $1
