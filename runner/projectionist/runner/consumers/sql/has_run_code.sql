-- Whether this consumer has run with this code before.
select exists (select from {schema}.codes where consumer = $1 and code = $2)
