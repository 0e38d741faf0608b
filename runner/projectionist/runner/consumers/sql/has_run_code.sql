-- Whether this consumer has run with this code before.
select exists (select from {schema}.code_fingerprints where consumer = $1 and code = $2)
