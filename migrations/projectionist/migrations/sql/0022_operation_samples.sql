-- Samples of operations as rows with their counts, so that nobody counts a million items; and operations on intents.

create table {schema}.operation_samples (
    operation bigint not null references {schema}.operations on delete cascade,
    alike integer not null,
    sample smallint not null,
    consumer integer not null,
    judged boolean not null,
    first bigint not null,
    items bigint not null,
    tried bigint not null default 0,
    done bigint not null default 0,
    failed bigint not null default 0,
    refused bigint not null default 0,
    left_alone bigint not null default 0,
    open boolean not null default true,
    primary key (operation, alike, sample)
) with (fillfactor = 50);
comment on table {schema}.operation_samples is
    'The growing samples of each group of an operation, in the order in which it comes to them, and what became of their items.';
comment on column {schema}.operation_samples.alike is 'the group of failures that are alike';
comment on column {schema}.operation_samples.judged is 'whether it is told what became of its items; otherwise each is done once it is due';
comment on column {schema}.operation_samples.first is 'the place of its first item; the others follow';
comment on column {schema}.operation_samples.tried is 'items that are to be tried at once, of which nothing is known yet';
comment on column {schema}.operation_samples.left_alone is 'items that are left alone, since none of the sample before it got through';
comment on column {schema}.operation_samples.open is 'whether there is something to do in it: an item that waits, or is tried';
-- Of a hundred thousand groups, each step asks for the first that is not done with.
create index operation_samples_open on {schema}.operation_samples (operation, alike, sample) where open;

insert into {schema}.operation_samples
    (operation, alike, sample, consumer, judged, first, items, tried, done, failed, refused, left_alone, open)
select operation, alike, sample, min(consumer), bool_or(judged), min(place), count(*), count(*) filter (where state = 'tried'),
    count(*) filter (where state = 'done'), count(*) filter (where state = 'failed'), count(*) filter (where state = 'refused'),
    count(*) filter (where state = 'left'), bool_or(state in ('waiting', 'tried'))
from {schema}.operation_items group by operation, alike, sample;

drop index {schema}.operation_items_waiting;
alter table {schema}.operation_items
    add column intent bigint,
    add column seen text,
    drop constraint operation_items_subject,
    add constraint operation_items_subject
        check (seq is not null or intent is not null or (source is not null and id is not null));
comment on column {schema}.operation_items.intent is 'of an intent: its number; null: it is something else';
comment on column {schema}.operation_items.seen is 'of an intent: its state when the operation began';
