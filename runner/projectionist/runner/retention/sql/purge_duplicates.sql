-- Removes from pages [$1, $2) the repeats that came long enough ago, at or below the floor. For the rest see
-- purge_inbox.
with rule as materialized (
    select * from unnest($5::integer[], $6::timestamptz[], $7::bigint[], $8::integer[])
        as r (consumer, before, floor, incarnation)
),
due as materialized (
    select d.ctid as place, r.incarnation as current, d.*
    from {schema}.duplicates d join rule r on r.consumer = d.consumer
    where d.ctid >= $1::tid and d.ctid < $2::tid and d.received < r.before
        and (d.incarnation < r.incarnation or (d.incarnation = r.incarnation and d.seq <= r.floor))
),
gone as (
    delete from {schema}.duplicates where not $3::boolean and ctid = any(array(select place from due))
),
kept as (
    insert into {schema}.archive (kind, consumer, content)
    select 'duplicates', consumer, to_jsonb(due) - '{place,current}'::text[] from due where $4::text = 'table' and not $3
),
line as (
    update {schema}.floors f set purged = greatest(f.purged, went.line)
    from (select consumer, max(seq) as line from due where not $3 and incarnation = current group by consumer) went
    where f.consumer = went.consumer
)
select consumer, count(*) as rows,
    case when $4 = 'files' then string_agg((to_jsonb(due) - '{place,current}'::text[])::text, E'\n') end as lines
from due group by consumer
