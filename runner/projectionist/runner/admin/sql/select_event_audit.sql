-- What was done by hand about one event, by any of the names that acts give it.
select at, who, action, object, reason from {schema}.audit where object = any ($1::text[]) order by number
