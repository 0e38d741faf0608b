-- Intents of an aggregate ($1) or an event ($2, $3) that are not settled, whoever asked for them; and, as `packed`, rows of
-- intents that no relay could unpack.
select t.key, o.state, o.provider
from {schema}.outbox o join {schema}.intents t on t.seq = o.seq
where t.aggregate = $1 or t.source = $2 and t.id = $3
union all
select t.key, 'scheduled', t.provider
from {schema}.schedule s join {schema}.intents t on t.seq = s.intent
where s.look is not null and s.promoted is null and (t.aggregate = $1 or t.source = $2 and t.id = $3)
union all
select s.seq::text, 'packed', '' from {schema}.staged_intents s where s.refused is not null
order by 2, 1
