-- Who did what to which event or aggregate of a consumer, and why.
insert into {schema}.audit (who, action, object, reason, detail)
select $4, $2, c.name || ': ' || $3, $5, $6::text::jsonb from {schema}.consumers c where c.number = $1
