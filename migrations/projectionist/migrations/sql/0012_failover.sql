-- Which home of the schema relays send from: a database that took another one's place may lack attempts that were made.

create table {schema}.relay_home (
    one boolean primary key default true check (one),
    token uuid not null,
    epoch integer not null default 1,
    doubted bigint not null default 0,
    since timestamptz not null default clock_timestamp()
);
comment on table {schema}.relay_home is 'The token of the owner for which relays last sent, one row.';
comment on column {schema}.relay_home.epoch is 'how many homes there were';
comment on column {schema}.relay_home.doubted is
    'the last intent from before it: each up to here may have been sent, whatever its row says';

alter table {schema}.outbox add column epoch integer;
comment on column {schema}.outbox.epoch is 'of the home in which it was last leased: there that doubt is known';
