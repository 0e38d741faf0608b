-- What has ended too many of those who read it ($4) by the code whose marks end so ($3).
select id from {schema}.crash_marks where consumer = $1 and source = $2 and id like '%' || $3::text and marks > $4
