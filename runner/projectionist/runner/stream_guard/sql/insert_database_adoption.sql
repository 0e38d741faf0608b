-- This database is the real one from now on: on record, and what said otherwise is closed.
with closed as (
    update {schema}.incidents set closed = clock_timestamp()
    where kind in ('database_copied', 'durable_taken') and closed is null
    returning number
)
insert into {schema}.audit (who, action, object, reason, detail)
select $1, 'adopt-database', 'database', $2, $3::text::jsonb || jsonb_build_object('incidents', (select count(*) from closed))
