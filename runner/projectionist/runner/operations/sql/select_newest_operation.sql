-- The highest number of an operation that is on record.
select max(number) from {schema}.operations
