-- Ranges of versions that a decision stepped over.
select aggregate, version, coalesce(upto, version) as upto
from {schema}.decisions
where consumer = $1 and aggregate = any($2::text[]) and kind in ('skip', 'accept_gap', 'discard', 'baseline')
