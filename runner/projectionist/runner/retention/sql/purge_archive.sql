-- Removes from pages [$1, $2) of the archive what was put there before $5, but for consumers under legal hold ($6).
with due as materialized (
    select a.ctid as place, a.consumer from {schema}.archive a
    where a.ctid >= $1::tid and a.ctid < $2::tid and a.at < $5::timestamptz
        and (a.consumer is null or a.consumer <> all($6::integer[]))
),
gone as (
    delete from {schema}.archive where not $3::boolean and ctid = any(array(select place from due))
)
select null::integer as consumer, count(*) as rows, null::text as lines, $4::text as mode
from due having count(*) > 0
