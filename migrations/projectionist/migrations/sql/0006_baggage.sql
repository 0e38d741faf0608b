-- The members of an event's baggage that the settings allow, kept where the event waits and with what it asks for.

alter table {schema}.parked add column baggage text;
comment on column {schema}.parked.baggage is 'allowed members of the event''s baggage, as a header holds them; null for none';

alter table {schema}.intents add column baggage text;
comment on column {schema}.intents.baggage is 'allowed members of the baggage of the event behind it; null for none';
