-- Where the event ($2, $3) stands for a consumer, also if only the archive still has its row.
select aggregate, version, state in ('applied', 'ignored') as applied, hash
from {schema}.inbox where consumer = $1 and source = $2 and id = $3
union all
select a.content ->> 'aggregate', (a.content ->> 'version')::bigint, a.content ->> 'state' in ('applied', 'ignored'),
    decode(substr(a.content ->> 'hash', 3), 'hex')
from {schema}.archive a
where a.kind = 'inbox' and a.consumer = $1 and a.content ->> 'source' = $2 and a.content ->> 'id' = $3
