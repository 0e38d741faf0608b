-- A process begins to run a consumer. $6: the header that it reads each part of the envelope from.
insert into {schema}.runners (consumer, instance, host, pid, code, headers) values ($1, $2, $3, $4, $5, $6::jsonb) returning number
