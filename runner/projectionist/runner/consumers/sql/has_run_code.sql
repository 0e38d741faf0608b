-- Whether this view has run with this code before.
select exists (select from {schema}.code_fingerprints where view = $1 and code = $2)
