-- Who holds these versions in the inbox: tells a late arrival from a version used twice. A probe each, as `select_inbox_by_identity`.
select i.*
from unnest($2::text[], $3::bigint[]) as asked (aggregate, version)
cross join lateral (
    select aggregate, version, source, id, state, batch
    from {schema}.inbox
    where consumer = $1 and aggregate = asked.aggregate and version = asked.version
    offset 0
) as i
