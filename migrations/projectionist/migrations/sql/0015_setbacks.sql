-- What a process cannot do at the moment: a consumer that never joined has no row among the runners.

create table {schema}.setbacks (
    instance uuid not null,
    consumer text collate "C" not null,
    what text collate "C" not null,
    state text not null check (state in ('ended', 'retried', 'waits', 'failing')),
    host text not null,
    pid integer not null,
    reason text not null,
    remedy text not null,
    since timestamptz not null default clock_timestamp(),
    until timestamptz not null,
    primary key (instance, consumer, what)
);
comment on table {schema}.setbacks is
    'What each process cannot do, written when that changes; a row goes when it is well again, and is over at `until`.';
comment on column {schema}.setbacks.consumer is 'its name, since it may not be registered; empty where all of the process is meant';
comment on column {schema}.setbacks.what is 'the chore that fails; empty where the consumer itself does not run';
comment on column {schema}.setbacks.until is 'a process that lives has put this off before then';
