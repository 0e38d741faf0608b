-- The roles that rights were given to, by duty.
select duty, role from {schema}.roles order by duty, role
