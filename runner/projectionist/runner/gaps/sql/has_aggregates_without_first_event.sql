-- Whether aggregates of this consumer still wait for a first version, or it has seen none yet.
select exists (select from {schema}.positions where consumer = $1 and head = 'gap' and version = 0)
    or not exists (select from {schema}.positions where consumer = $1)
