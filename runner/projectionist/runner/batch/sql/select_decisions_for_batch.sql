-- What was decided about these aggregates, and about events without order of these ids, in the order of deciding.
select number, kind, aggregate, version, upto, source, id, seq, headers, data
from (
    select * from {schema}.decisions where consumer = $1 and aggregate = any ($2::text[]) and seq is null
    union
    select * from {schema}.decisions where consumer = $1 and id = any ($3::text[]) and version is null and seq is null
) about
order by number
