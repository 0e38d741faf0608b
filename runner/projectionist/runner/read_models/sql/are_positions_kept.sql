-- Whether a generation that is kept can be caught up by the positions of this build.
select exists (select from {schema}.generations where build = $1)
