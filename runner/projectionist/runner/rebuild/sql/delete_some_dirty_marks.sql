-- These marks have been seen to.
delete from {schema}.dirty_marks where consumer = $1 and mark = any($2::text[])
