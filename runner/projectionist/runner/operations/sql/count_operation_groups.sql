-- How many groups of what is alike an operation has: they are numbered from one.
select coalesce(max(alike), 0) as groups from {schema}.operation_samples where operation = $1
