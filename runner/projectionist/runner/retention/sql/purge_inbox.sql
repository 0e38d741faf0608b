-- Removes from pages [$1, $2) of the inbox what was settled by itself, long enough ago, and cannot be asked for any more:
-- at or below the floor, no repeat of it younger than that, no intent of it left. Answers a row a consumer.
-- $3: only look. $4: where rows go before ("table", "files": as lines in the answer). `offset 0`: a probe a row, never a join.
with rule as materialized (
    select * from unnest($5::integer[], $6::timestamptz[], $7::bigint[], $8::integer[])
        as r (consumer, before, floor, incarnation)
),
due as materialized (
    select i.ctid as place, r.incarnation as current, i.*
    from {schema}.inbox i join rule r on r.consumer = i.consumer
    where i.ctid >= $1::tid and i.ctid < $2::tid
        and i.state in ('applied', 'ignored', 'stale')
        and greatest(i.processed, i.received) < r.before
        and (i.incarnation < r.incarnation or (i.incarnation = r.incarnation and i.seq <= r.floor))
        and not exists (
            select from {schema}.duplicates d
            where d.consumer = i.consumer and d.source = i.source and d.id = i.id and d.received >= r.before offset 0
        )
        and not exists (
            select from {schema}.intents n where n.consumer = i.consumer and n.source = i.source and n.id = i.id offset 0
        )
),
gone as (
    delete from {schema}.inbox where not $3::boolean and ctid = any(array(select place from due))
),
kept as (
    insert into {schema}.archive (kind, consumer, content)
    select 'inbox', consumer, to_jsonb(due) - '{place,current}'::text[] from due where $4::text = 'table' and not $3
),
line as (
    update {schema}.floors f
    set purged = greatest(f.purged, went.line), purged_from = least(f.purged_from, went.lowest)
    from (
        select consumer, coalesce(max(seq) filter (where incarnation = current), 0) as line,
            min(case when incarnation = current then seq else 0 end) as lowest
        from due where not $3 group by consumer
    ) went
    where f.consumer = went.consumer
)
select consumer, count(*) as rows,
    case when $4 = 'files' then string_agg((to_jsonb(due) - '{place,current}'::text[])::text, E'\n') end as lines
from due group by consumer
