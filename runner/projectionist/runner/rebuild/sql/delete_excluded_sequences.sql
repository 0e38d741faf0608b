-- What a bulk left out is needed no more.
delete from {schema}.build_excluded where build = $1
