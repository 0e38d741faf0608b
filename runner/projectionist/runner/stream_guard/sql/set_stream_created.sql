-- The same content in a stream that was created at another time.
update {schema}.streams set created = $3 where name = $1 and incarnation = $2
