-- How many aggregates have something parked.
select count(*) from {schema}.positions where head <> 'clear'
