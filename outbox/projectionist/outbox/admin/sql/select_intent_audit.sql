-- Operators' acts on one intent.
select at, who, verb, reason from {schema}.audit where object = $1 order by number
