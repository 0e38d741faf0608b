-- Removes from pages [$1, $2) the acts of operators before $5. Decisions are rows of their own, and stay. For the rest see
-- purge_inbox.
with due as materialized (
    select a.ctid as place, a.* from {schema}.audit a
    where a.ctid >= $1::tid and a.ctid < $2::tid and a.at < $5::timestamptz
),
gone as (
    delete from {schema}.audit where not $3::boolean and ctid = any(array(select place from due))
),
kept as (
    insert into {schema}.archive (kind, content)
    select 'audit', to_jsonb(due) - 'place' from due where $4::text = 'table' and not $3
)
select null::integer as consumer, count(*) as rows,
    case when $4 = 'files' then string_agg((to_jsonb(due) - 'place')::text, E'\n') end as lines
from due having count(*) > 0
