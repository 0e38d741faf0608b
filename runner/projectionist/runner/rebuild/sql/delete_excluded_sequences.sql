-- What a bulk left out is needed no more.
delete from {schema}.build_apart where build = $1
