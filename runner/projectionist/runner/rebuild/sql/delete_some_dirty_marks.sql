-- These marks have been seen to.
delete from {schema}.dirty where consumer = $1 and mark = any($2::text[])
