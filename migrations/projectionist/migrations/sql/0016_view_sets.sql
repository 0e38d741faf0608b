-- One consumer feeds several views: which of them batches write, which of them failed on an event, and which of them asked for an
-- intent.

alter table {schema}.views
    add column state text not null default 'live' check (state in ('joining', 'live', 'detached', 'retired'));
comment on column {schema}.views.state is
    'joining: built before batches write it; live: written by each batch; detached: left out by a person; retired: its class is gone';

alter table {schema}.parked add column view integer;
comment on column {schema}.parked.view is 'whose handler failed; null: none, or nobody knows';

alter table {schema}.intents add column view integer;
comment on column {schema}.intents.view is 'whose handler asked for it';

alter table {schema}.cancels add column view integer;
comment on column {schema}.cancels.view is 'it takes back what this view scheduled';
