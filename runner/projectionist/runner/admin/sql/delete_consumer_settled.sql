-- Of a consumer that begins anew nothing is settled.
delete from {schema}.settled where consumer = $1
