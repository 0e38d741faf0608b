-- Operators' acts on one intent.
select at, who, action, reason from {schema}.audit where object = $1 order by number
