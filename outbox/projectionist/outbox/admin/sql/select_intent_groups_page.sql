-- Groups of the intents that are chosen, and how the last attempt of each one's sample has ended.
with groups as materialized ({outbox/select_intent_groups($1, $2, $3, $4, $5, $6, $7)})
select
    (select coalesce(json_agg(one), '[]') from groups one) as groups,
    (select coalesce(json_agg(one), '[]') from ({outbox/select_attempt_outcomes((select array_agg(sample) from groups))}) one) as outcomes
