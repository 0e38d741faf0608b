-- The home of all own tables, made when nobody made it beforehand.
create schema if not exists {schema}
