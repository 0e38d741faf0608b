-- Removes entries that have been settled; all of one source.
with gone as (
    delete from {schema}.parked where consumer = $1 and source = $2 and id = any($3::text[])
    returning cause, type, alike, {schema}.parked_state(ordered, cause, due) as state
)
insert into {schema}.parked_counts (consumer, cause, type, alike, state, events)
select $1, cause, type, alike, state, -count(*) from gone group by cause, type, alike, state
