-- Which of its event's rows asked for an intent: two lines of one order ask in one slot.

alter table {schema}.intents add column scope text;
comment on column {schema}.intents.scope is
    'the key of the row it was asked for with, as JSON; null: a handler of one row asked, or it is from before scopes were on record';
