-- Store first: parked events as a queue, claimed by aggregate. And the breaker of a consumer.

alter table {schema}.positions add column owner integer;
comment on column {schema}.positions.owner is 'the runner that has claimed what is stored for this aggregate';
create index positions_owned on {schema}.positions (consumer, owner) where owner is not null;

alter table {schema}.runners add column leased_until timestamptz;
comment on column {schema}.runners.leased_until is 'the lease behind all claims of this runner';

create table {schema}.consumer_breakers (
    consumer integer primary key,
    state text not null check (state in ('closed', 'open', 'half_open')),
    epoch integer not null,
    failures integer not null,
    openings integer not null,
    until timestamptz not null,
    runner integer,
    reason text not null,
    changed timestamptz not null default clock_timestamp()
);
comment on table {schema}.consumer_breakers is
    'Consumers on which many keys failed at once: nothing is fetched while open, one runner tries while half open.';
