-- The round is over: its marks go.
delete from {schema}.dirty_marks where consumer = $1 and slot = any($2::smallint[])
