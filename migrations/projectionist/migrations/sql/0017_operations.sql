-- What takes long, as rows: who began it and why, what it matches, how far it is, and who carries it out.

create table {schema}.operations (
    number bigint generated always as identity primary key,
    kind text not null,
    chosen jsonb not null,
    who text not null,
    reason text not null,
    rate double precision not null,
    patience_s double precision not null,
    began timestamptz not null default clock_timestamp(),
    matched bigint not null default 0,
    done bigint not null default 0,
    failed bigint not null default 0,
    refused bigint not null default 0,
    owner text,
    epoch bigint not null default 0,
    beat timestamptz not null default clock_timestamp(),
    stop_asked_by text,
    stop_reason text,
    ended timestamptz,
    outcome text check (outcome in ('done', 'none_got_through', 'untried', 'stopped')),
    note text,
    check ((ended is null) = (outcome is null))
) with (fillfactor = 50);
comment on table {schema}.operations is
    'One row per operation. Any process may carry it out, one at a time, and any may ask it to stop.';
comment on column {schema}.operations.chosen is 'the filters that chose its items when it began';
comment on column {schema}.operations.rate is 'at most so many items a second';
comment on column {schema}.operations.patience_s is 'how long it waits until an item that is to be tried has been';
comment on column {schema}.operations.done is 'items that got through';
comment on column {schema}.operations.failed is 'items that were tried once more, and failed again';
comment on column {schema}.operations.refused is 'items that had moved since it began, or that nothing could be done about';
comment on column {schema}.operations.owner is 'who carries it out; null: nobody, and another may';
comment on column {schema}.operations.epoch is 'rises with each that carries it out: what an older one does is refused';
comment on column {schema}.operations.beat is 'the last sign of life of who carries it out, or when it let go';
comment on column {schema}.operations.note is 'why it ended before all was done, or why nobody carries it out';
create index operations_open on {schema}.operations (number) where ended is null;

create table {schema}.operation_items (
    operation bigint not null references {schema}.operations on delete cascade,
    place bigint not null,
    alike integer not null,
    sample smallint not null,
    judged boolean not null,
    consumer integer not null,
    source text collate "C" not null,
    id text collate "C" not null,
    aggregate text collate "C",
    version bigint not null,
    attempts integer not null,
    state text not null default 'waiting' check (state in ('waiting', 'tried', 'done', 'failed', 'refused', 'left')),
    note text,
    primary key (operation, place)
) with (fillfactor = 80);
comment on table {schema}.operation_items is
    'What an operation is about, in the order in which it comes to it, as it stood when the operation began.';
comment on column {schema}.operation_items.alike is 'the group of failures that are alike';
comment on column {schema}.operation_items.sample is 'which of the growing samples of its group it is in';
comment on column {schema}.operation_items.judged is 'whether it is told what became of it; otherwise it is done once it is due';
comment on column {schema}.operation_items.aggregate is 'null: it waits in no order';
-- Of a hundred thousand items, each step asks for the next one, and for those few of which nothing is known yet.
create index operation_items_waiting on {schema}.operation_items (operation, place) where state = 'waiting';
create index operation_items_tried on {schema}.operation_items (operation, place) where state = 'tried';
create index operation_items_not_done on {schema}.operation_items (operation, place) where state in ('failed', 'refused');
