-- Who has done what to an operation, and why.
insert into {schema}.audit (who, action, object, reason, detail) values ($3, $2, 'operation ' || $1::bigint, $4, $5::text::jsonb)
