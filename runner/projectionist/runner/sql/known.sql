-- The rows of identities that a claim may have found taken; the caller drops pairs it did not ask for.
select source, id, batch, incarnation, seq, hash, state
from {schema}.inbox
where consumer = $1 and source = any($2::text[]) and id = any($3::text[])
