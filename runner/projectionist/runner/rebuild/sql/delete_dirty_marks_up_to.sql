-- Without order, marks of what the bulk reads by itself.
delete from {schema}.dirty where consumer = $1 and mark::bigint <= $2
