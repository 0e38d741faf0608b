-- The first of the intents that are chosen, how many there are, and how the last attempt of each has ended. $8: so many intents.
with few as materialized ({outbox/select_intents($1, $2, $3, $4, $5, $6, $7, $8)})
select
    (select coalesce(sum(count), 0)::bigint from ({outbox/select_intent_groups($1, $2, $3, $4, $5, $6, $7)}) groups) as count,
    (select coalesce(json_agg(one), '[]') from few one) as intents,
    (select coalesce(json_agg(one), '[]') from ({outbox/select_attempt_outcomes((select array_agg(key) from few))}) one) as outcomes
