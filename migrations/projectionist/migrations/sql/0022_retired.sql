-- Consumers that are no more. Their names are not given again: intent keys were made of them, and providers remember keys.

create table {schema}.retired (
    name text collate "C" primary key,
    consumer integer not null,
    at timestamptz not null default clock_timestamp(),
    who text not null,
    reason text not null
);
comment on table {schema}.retired is
    'Names that consumers bore until they were retired; the names of their read models stay theirs in own_names.';
