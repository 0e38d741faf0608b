-- Whether several kept generations stand where these positions say.
select count(*) > 1 from {schema}.generations where build = $1
