-- Writes rows of the archive anew, without their content.
update {schema}.archive a set content = e.line::jsonb
from unnest($1::bigint[], $2::text[]) as e (number, line)
where a.number = e.number
