-- Whether anything is taken and not settled.
select exists (select from {schema}.parked)
