-- Registers a view for the first time. Of a consumer that has run it joins: it lacks what was applied without it.
insert into {schema}.views (consumer, name, key_name, kind, revision, shape, code, looks_up, state)
select $1, $2, $2, $3, $4, $5, $6, $7, case when exists (
        select from {schema}.views o where o.consumer = $1 and o.effects_mark is not null
    ) then 'joining' else 'live' end
returning number, state
