-- From here on batches and verbs leave marks for this build.
update {schema}.consumers set build = $2 where number = $1
