-- Groups of the intents that are chosen, how the last attempt of each one's sample and of each head of a standing lane has ended,
-- and those lanes of the provider. $8: so many lanes.
with groups as materialized ({outbox/select_intent_groups($1, $2, $3, $4, $5, $6, $7)}),
lanes as materialized ({outbox/select_standing_lanes($2, $8)})
select
    (select coalesce(json_agg(one), '[]') from groups one) as groups,
    (select coalesce(json_agg(one), '[]') from lanes one) as lanes,
    (select coalesce(json_agg(one), '[]') from (
        {outbox/select_attempt_outcomes((select array_agg(key) from (select sample as key from groups union select key from lanes) shown))}
    ) one) as outcomes
