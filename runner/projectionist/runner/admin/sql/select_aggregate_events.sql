-- The newest events of an aggregate that a consumer's inbox or the archive holds, in order. $4: rows that were found in files of
-- the archive; those of a purge that did not end are in the inbox too.
select * from (select * from (
    select distinct on (source, id) version, source, id, type, state, verdict, seq, received, processed, archived from (
        (select i.*, false as archived from {schema}.inbox i where i.consumer = $1 and i.aggregate = $2
            order by i.version desc nulls last, i.seq desc limit $3)
        union all
        select kept.*, true from {schema}.archive a cross join lateral jsonb_populate_record(null::{schema}.inbox, a.content) kept
        where a.kind = 'inbox' and a.content ->> 'aggregate' = $2 and a.consumer = $1
        union all
        select filed.*, true from jsonb_populate_recordset(null::{schema}.inbox, $4::jsonb) filed
        where filed.consumer = $1 and filed.aggregate = $2
    ) known
    order by source, id, archived
) each order by version desc nulls last, seq desc limit $3) newest
order by version nulls first, seq
