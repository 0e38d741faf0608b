-- Takes the content out of inbox rows; identity, hash and place stay, so that what comes again is known.
update {schema}.inbox i
set state = case when i.state in ('applied', 'ignored', 'stale') then 'erased'
        when i.state = 'quarantined' then 'discarded' else i.state end,
    data = null, tracestate = null
from unnest($2::text[], $3::text[]) as e (source, id)
where i.consumer = $1 and i.source = e.source and i.id = e.id
