-- The newest incarnation of a stream.
select incarnation, created, highest_seq from {schema}.streams where name = $1 order by incarnation desc limit 1
