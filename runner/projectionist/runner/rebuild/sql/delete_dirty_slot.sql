-- The round is over: its marks go.
delete from {schema}.dirty where consumer = $1 and slot = any($2::smallint[])
