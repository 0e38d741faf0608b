-- A process begins to run a consumer.
insert into {schema}.runners (consumer, instance, host, pid, code) values ($1, $2, $3, $4, $5) returning number
