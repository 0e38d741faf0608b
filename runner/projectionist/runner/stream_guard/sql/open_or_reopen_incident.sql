-- Opens an incident, again if it had been closed; the same fact stands once. What was judged before somebody has decided ($6: the
-- epoch that was read; null for what no decision about the stream settles) is no fact any more.
with still as materialized (
    select from {schema}.consumers where number = $1 and ($6::bigint is null or epoch = $6) for share
)
insert into {schema}.incidents (consumer, kind, incarnation, seq, detail) select $1, $2, $3, $4, $5 from still
on conflict (consumer, kind, incarnation, seq) do update
set detail = excluded.detail, opened = case when incidents.closed is null then incidents.opened else clock_timestamp() end,
    closed = null
