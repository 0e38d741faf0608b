-- Of a consumer that begins anew nothing was purged.
update {schema}.floors set purged = 0, purged_from = null where consumer = $1
