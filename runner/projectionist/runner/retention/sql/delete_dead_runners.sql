-- Removes processes that are long gone, and whose counters were added up.
delete from {schema}.runners r
where r.consumer = any($1::integer[]) and coalesce(r.stopped, r.beat) < clock_timestamp() - $2::float8 * interval '1 second'
    and not exists (select from {schema}.counters c where c.consumer = r.consumer and c.runner = r.number)
