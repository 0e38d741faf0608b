-- Where the live generation stands.
select aggregate, version from {schema}.positions where consumer = $1
