-- Of an operation: samples of its first groups ($2), how many groups there are, and the first of the items that were not done ($3).
select
    (select coalesce(json_agg(one), '[]') from ({runner/select_operation_samples($1, $2)}) one) as samples,
    ({runner/count_operation_groups($1)}) as groups,
    (select coalesce(json_agg(one), '[]') from ({runner/select_operation_failures($1, $3)}) one) as failures
