-- Who holds these versions in the inbox: tells a late arrival from a version used twice.
select aggregate, version, source, id, state, batch
from {schema}.inbox
where consumer = $1 and aggregate = any($2::text[]) and version = any($3::bigint[])
