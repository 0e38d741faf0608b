-- What is a view's stands apart from what is its consumer's, so that one consumer can feed several. Each that is registered
-- feeds one, which has its number: what was kept under the consumer's is the view's as it stands.

create table {schema}.views (
    number integer generated always as identity primary key,
    consumer integer not null,
    name text collate "C" not null unique,
    key_name text collate "C" not null unique,
    kind text collate "C" not null check (kind in ('projection', 'reactor', 'sql')),
    revision integer not null default 1,
    shape bytea not null,
    code bytea not null,
    generation integer not null default 1,
    own_type text collate "C",
    own_since text,
    effects_incarnation integer,
    effects_mark bigint,
    created_at timestamptz not null default clock_timestamp(),
    constraint views_effects_check check ((effects_incarnation is null) = (effects_mark is null))
);
comment on table {schema}.views is
    'What a consumer feeds: handlers, the generation of their tables, and what intents of theirs are known by.';
comment on column {schema}.views.key_name is
    'the name under which the view was first registered; intent keys are made of it, so that a rename keeps them';
comment on column {schema}.views.shape is
    'Fingerprint of fields, key, table, options and handled types: a change needs a migration or a rebuild.';
comment on column {schema}.views.code is 'Fingerprint of the handlers: a new one is adopted at start.';
comment on column {schema}.views.own_type is
    'the one type of aggregate whose ids are keys of rows: with a second type, two aggregates would share a row';
comment on column {schema}.views.own_since is 'the event that decided own_type, as errors name it';
comment on column {schema}.views.effects_mark is
    'Stream sequence from which intents are real; below it they are counted and dropped.';

insert into {schema}.views (
    number, consumer, name, key_name, kind, revision, shape, code, generation, own_type, own_since, effects_incarnation,
    effects_mark, created_at
)
overriding system value
select number, number, name, key_name, kind, revision, shape, code, generation, own_type, own_since, effects_incarnation,
    effects_mark, created_at
from {schema}.consumers;
select setval(pg_get_serial_sequence(format('%I.views', n.nspname), 'number'), max(v.number))
from {schema}.views v join pg_class c on c.oid = v.tableoid join pg_namespace n on n.oid = c.relnamespace group by n.nspname;
create index views_consumer on {schema}.views (consumer);

alter table {schema}.consumers
    drop key_name, drop kind, drop revision, drop shape, drop code, drop generation, drop own_type, drop own_since,
    drop effects_incarnation, drop effects_mark;
comment on table {schema}.consumers is
    'One control row per registered consumer: who reads what, in which order, under which epoch.';

alter table {schema}.generations rename consumer to view;
alter table {schema}.names rename consumer to view;
alter table {schema}.code_fingerprints rename consumer to view;
comment on table {schema}.code_fingerprints is
    'Every fingerprint of handlers that a view has run with: one of the past does not start by itself.';

-- What a build makes, by view; the build itself is its consumer's.
create table {schema}.build_views (
    build integer not null,
    view integer not null,
    generation integer not null,
    revision integer not null,
    shape bytea not null,
    code bytea not null,
    base bytea not null,
    primary key (build, view)
);
comment on column {schema}.build_views.base is
    'the code live ran when the build was opened: no swap over newer code';
insert into {schema}.build_views (build, view, generation, revision, shape, code, base)
select number, consumer, generation, revision, shape, code, base from {schema}.builds;
alter table {schema}.builds
    drop generation, drop revision, drop shape, drop code, drop base;
