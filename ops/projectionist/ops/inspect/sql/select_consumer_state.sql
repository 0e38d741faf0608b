-- What is known of one consumer ($1) beside its status: its counters, its views with what remembers their code, its newest acts ($2).
with views as materialized ({runner/select_consumer_views($1)})
select
    (select coalesce(json_agg(one), '[]') from ({runner/select_counts_by_type($1)}) one) as counted,
    (select coalesce(json_agg(one), '[]') from views one) as views,
    (select code from ({runner/select_generation((select min(view) from views), (select min(generation) from views))}) one) as made_by,
    (select coalesce(json_agg(one), '[]') from ({runner/select_audit_log($1, null, null, null, null, null, $2)}) one) as acts
