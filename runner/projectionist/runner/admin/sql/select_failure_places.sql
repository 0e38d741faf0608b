-- Of which class the errors of these parked events are, and which line raised each: the last frame of its stack.
select k.n, e.error_class, f.found[1] || ':' || f.found[2] as raised_at
from unnest($1::text[], $2::text[], $3::text[]) with ordinality as k (name, source, id, n)
join {schema}.consumers c on c.name = k.name
join {schema}.parked e on e.consumer = c.number and e.source = k.source and e.id = k.id and e.cause = 'failed' and not e.discarded
left join lateral regexp_match(e.stack, '.*File "(?:[^"\n]*/)?([^"/\n]+)", line ([0-9]+)') as f (found) on true
