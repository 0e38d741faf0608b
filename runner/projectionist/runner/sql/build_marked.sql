-- How many marks wait, at most $2.
select count(*) from (select from {schema}.dirty where consumer = $1 limit $2) found
