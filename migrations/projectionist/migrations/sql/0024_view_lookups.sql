-- Which views of its set a view looks up: one that another looks up cannot be taken out of it.

alter table {schema}.views add column looks_up text[] collate "C" not null default '{}';
comment on column {schema}.views.looks_up is
    'the names of the views of its set that its code looks up; empty for code that was taken up before they were on record';
