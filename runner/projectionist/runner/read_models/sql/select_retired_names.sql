-- Who has retired consumers of these names, and when.
select name, who, at from {schema}.retired_consumers where name = any($1::text[]) order by name
