-- Without order, marks of what the bulk reads by itself.
delete from {schema}.dirty_marks where consumer = $1 and mark::bigint <= $2
