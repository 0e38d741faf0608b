-- The first parked events of one group, what was counted of the group, and where those events that failed were raised. $5: so many events;
-- $6: so many are looked at, as when groups are counted.
with events as materialized ({runner/select_parked_of_group($1, $2, $3, $4, $5)})
select
    (select coalesce(json_agg(one), '[]') from ({runner/select_parked_groups_by_count($1, $2, $3, $4, $6)}) one) as groups,
    (select coalesce(json_agg(one), '[]') from events one) as events,
    (select coalesce(json_agg(one), '[]') from ({runner/select_failure_places(
        (select array_agg(name) from events), (select array_agg(source) from events), (select array_agg(id) from events)
    )}) one) as failures
