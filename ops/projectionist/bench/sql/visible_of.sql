-- Which of these events have been committed.
select id from {schema}.inbox where consumer = $1 and source = $2 and id = any($3::text[])
