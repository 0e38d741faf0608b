-- Empties, in pages [$1, $2), corrections from before $6: a rebuild that would need one is refused. Never those of a consumer that
-- was reset, whose batches obey them, and never one that is still to come out of quarantine. For the rest see purge_quarantine.
with due as materialized (
    select d.ctid as place, d.consumer from {schema}.decisions d join {schema}.consumers c on c.number = d.consumer
    where d.ctid >= $1::tid and d.ctid < $2::tid
        and d.consumer = any($5::integer[]) and d.kind = 'edit' and d.at < $6::timestamptz and not c.repeats
        and (d.headers is not null or d.data is not null)
        and not exists (
            select from {schema}.quarantine q
            where q.consumer = d.consumer and q.incarnation = d.incarnation and q.seq = d.seq and q.state = 'quarantined' offset 0
        )
),
emptied as (
    update {schema}.decisions set headers = null, data = null
    where not $3::boolean and ctid = any(array(select place from due))
)
select consumer, count(*) as rows, nullif($4::text, $4) as lines from due group by consumer
