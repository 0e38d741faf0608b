-- The shape that a consumer's tables have now, and the name its class has.
update {schema}.consumers set name = $2, shape = $3, epoch = epoch + 1 where number = $1
