-- Where the chain of acts ends by its own word, and where purges said that it begins. What is no place and hash was written by
-- nobody who purges.
with purges as (
    select a.detail ->> 'place' as place, a.detail ->> 'hash' as hash, a.number
    from {schema}.audit a
    where a.action = 'purge-audit' and a.detail ->> 'place' ~ '^[0-9]{1,18}$' and a.detail ->> 'hash' ~ '^[0-9a-f]{64}$'
)
select h.place, h.hash,
    array(select place::bigint from purges order by number) as places,
    array(select decode(hash, 'hex') from purges order by number) as hashes
from {schema}.audit_head h
