-- What a waiter has to know of a consumer.
select number, incarnation from {schema}.consumers where name = $1
