-- Where this schema was at home when somebody last ran on it.
select system, timeline, database, name, home, token::text, before::text from {schema}.owner
