-- How many events the inbox says are settled.
select count(*) from {schema}.inbox where batch > 0
