-- Unsettled intents by provider and state, and the age of the oldest, of one that was scheduled since it was due; of very many the first ones, since all would cost
-- more than the number is worth. Staged intents, which no relay has unpacked yet, are `staged`, of no provider.
select o.provider, o.state, o.n, extract(epoch from clock_timestamp() - greatest(i.created, i.scheduled))::float8 as oldest_s
from (
    select provider, state, count(*) as n, min(seq) as first
    from (select provider, state, seq from {schema}.outbox limit $1) few
    group by provider, state
) o
join {schema}.intents i on i.seq = o.first
union all
select null, 'staged', sum(intents)::bigint, extract(epoch from clock_timestamp() - min(created))::float8
from {schema}.staged_intents having count(*) > 0
