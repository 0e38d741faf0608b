-- Which event has decided whose ids are keys of a consumer's rows: the first that every refusal of another type names.

alter table {schema}.consumers add column own_since text;
comment on column {schema}.consumers.own_since is 'the event that decided own_type, as errors name it';
