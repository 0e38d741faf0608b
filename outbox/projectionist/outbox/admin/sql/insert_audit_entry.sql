-- Records an operator's act on intents: actor, reason, and their state before.
insert into {schema}.audit (who, action, object, reason, detail)
select $1, $2, 'intent ' || act.key, $3, jsonb_build_object('state', act.state, 'error', act.error)
from unnest($4::text[], $5::text[], $6::text[]) as act (key, state, error)
