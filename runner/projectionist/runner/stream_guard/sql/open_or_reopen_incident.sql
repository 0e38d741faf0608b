-- Opens an incident, again if it had been closed; the same fact stands once.
insert into {schema}.incidents (consumer, kind, incarnation, seq, detail) values ($1, $2, $3, $4, $5)
on conflict (consumer, kind, incarnation, seq) do update
set detail = excluded.detail, opened = case when incidents.closed is null then incidents.opened else clock_timestamp() end,
    closed = null
