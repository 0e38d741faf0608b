-- Empties, in pages [$1, $2), entries that came out of quarantine or were discarded, came before $6, and were not decided
-- about since. The entry stays, with its hash; $4 does not matter, since no row goes. For the rest see purge_inbox.
with due as materialized (
    select q.ctid as place, q.consumer from {schema}.quarantine q
    where q.ctid >= $1::tid and q.ctid < $2::tid
        and q.consumer = any($5::integer[]) and q.state in ('released', 'discarded') and q.received < $6::timestamptz
        and (q.headers is not null or q.data is not null)
        and not exists (
            select from {schema}.decisions d
            where d.consumer = q.consumer and d.incarnation = q.incarnation and d.seq = q.seq and d.at >= $6 offset 0
        )
),
emptied as (
    update {schema}.quarantine set headers = null, data = null, detail = 'no longer kept'
    where not $3::boolean and ctid = any(array(select place from due))
)
select consumer, count(*) as rows, nullif($4::text, $4) as lines from due group by consumer
