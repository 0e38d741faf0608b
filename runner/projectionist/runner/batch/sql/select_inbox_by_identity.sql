-- The rows of identities that a claim has found taken: a probe each, whatever the planner believes of the table.
select i.*
from unnest($2::text[], $3::text[]) as asked (source, id)
cross join lateral (
    select source, id, batch, incarnation, seq, hash, state
    from {schema}.inbox
    where consumer = $1 and source = asked.source and id = asked.id
    offset 0
) as i
