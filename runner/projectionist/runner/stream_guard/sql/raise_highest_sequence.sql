-- How far the stream has been seen.
update {schema}.streams set highest_seq = $3 where name = $1 and incarnation = $2 and highest_seq < $3
