-- No build is open any more.
update {schema}.consumers set build = null where number = $1
