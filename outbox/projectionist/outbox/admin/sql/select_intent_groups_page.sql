-- The largest groups of the intents that are chosen, of those that wait for somebody ($9: the states) and of the others, and how many
-- there are in all; the lanes that stand, of the provider; how the last attempt of each sample and each head has ended. $8: so many
-- groups of both, and lanes: providers whose errors are never alike make a group of each intent.
with groups as materialized ({outbox/select_intent_groups($1, $2, $3, $4, $5, $6, $7)}),
largest as materialized (
    select * from (
        select g.*, row_number() over (partition by state = any ($9::text[]) order by count desc, oldest) as place from groups g
    ) placed
    where place <= $8
),
lanes as materialized ({outbox/select_standing_lanes($2, $8)})
select
    (select count(*) from groups) as all_groups,
    (select coalesce(json_agg(one order by place), '[]') from largest one) as groups,
    (select coalesce(json_agg(one), '[]') from lanes one) as lanes,
    (select coalesce(json_agg(one), '[]') from (
        {outbox/select_attempt_outcomes((select array_agg(key) from (select sample as key from largest union select key from lanes) shown))}
    ) one) as outcomes
