-- How many of the events of the past are still there.
select count(*) from {schema}.inbox where received = timestamptz '2024-01-01'
