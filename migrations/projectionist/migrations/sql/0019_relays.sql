-- Which relays work, and for which providers: without one, what is wished for has nobody to carry it out.

create table {schema}.relays (
    instance uuid primary key,
    host text not null,
    pid integer not null,
    providers text[] not null,
    started timestamptz not null default clock_timestamp(),
    beat timestamptz not null default clock_timestamp()
) with (fillfactor = 50);
comment on table {schema}.relays is 'One row a relay that works: it beats every few seconds, and removes its row when it stops.';
