-- Nothing was removed of what is read from now on.
update {schema}.floors set purged = 0, purged_from = null where consumer = $1
