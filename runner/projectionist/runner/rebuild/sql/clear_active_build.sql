-- From here on batches and verbs leave no marks.
update {schema}.consumers set build = null where number = $1
