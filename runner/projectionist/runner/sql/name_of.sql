-- What a consumer is called.
select name from {schema}.consumers where number = $1
