-- From here on batches and verbs leave marks for this build; for none where it is null.
update {schema}.consumers set build = $2 where number = $1
