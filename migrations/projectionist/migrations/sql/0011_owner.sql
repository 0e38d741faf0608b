-- Which database is the real one: a copy of it has this row too, and finds itself elsewhere.

create table {schema}.owner (
    one       boolean     primary key default true check (one),
    system    text,
    timeline  integer     not null,
    database  oid         not null,
    name      text        not null,
    home      oid         not null,
    token     uuid        not null default gen_random_uuid(),
    before    uuid,
    since     timestamptz not null default clock_timestamp()
);
comment on table {schema}.owner is 'Where this schema was at home when somebody last ran on it. Durables bear its token.';
comment on column {schema}.owner.system is 'Identifier of the cluster; null where this role may not read it.';
comment on column {schema}.owner.home is 'The table of consumers: a dump that is restored gives it another number.';
comment on column {schema}.owner.before is 'The token before the last failover, restore or adoption: durables that bear it are ours to take over.';
