-- Each view as it is registered; `was_here`: whether code of $1 has run it that is not what runs now.
select v.name, v.state, v.revision, v.shape, v.code,
    exists (select from {schema}.code_fingerprints where view = v.number and code = any($1::bytea[]) and code <> v.code) as was_here
from {schema}.views v
order by v.name
