-- What an event came to where nothing changed; and the archive is looked into by whoever asks for an event.

alter table {schema}.inbox add column idle boolean not null default false;
comment on column {schema}.inbox.idle is 'applied without effect: the condition (when=) of its handler did not hold';
create index archive_event on {schema}.archive ((content ->> 'id')) where kind in ('inbox', 'intents');
