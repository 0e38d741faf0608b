-- What pages show of millions of rows at once: counts that are kept beside what they count, in the same transactions, and what
-- groups parked events.

create function {schema}.digest(message text) returns text language sql immutable parallel safe as $$
    select left(encode(sha256(convert_to(message, 'UTF8')), 'hex'), 8)
$$;
comment on function {schema}.digest is 'What stands for a text where it is not shown, as `projectionist.core.digest` makes it.';

-- Why an event waits, as far as its own row says it.
create function {schema}.why_parked(cause text, discarded boolean, error_class text, error text)
returns text language sql immutable parallel safe as $$
    select case
        when discarded then 'discarded: stepped over in its turn'
        when cause = 'failed' then coalesce(error_class || ': ', '') || coalesce({schema}.alike(error), '')
        when cause = 'blocked' then 'behind an event that failed'
        when cause = 'gap' then 'behind missing versions'
        else 'stored, not applied yet'
    end
$$;

alter table {schema}.parked add column alike text collate "C"
    generated always as ({schema}.digest({schema}.why_parked(cause, discarded, error_class, error))) stored;
comment on column {schema}.parked.alike is 'digest of why it waits, without numbers and quoted values: one for each group';
create index parked_alike on {schema}.parked (consumer, cause, type, alike, incarnation, seq);

create or replace view {schema}.parked_seen as
select e.consumer, c.name, e.incarnation, e.seq, e.source, e.id, e.cause, e.type, e.aggregate, e.version, e.ordered,
    e.discarded, e.attempts, e.budget, e.due, e.parked_at, e.first_failed, e.last_failed, p.version as position, p.head, p.finding,
    {schema}.why_parked(e.cause, e.discarded, e.error_class, e.error)
        || case when e.cause = 'gap' and not e.discarded then coalesce(': ' || p.finding, '') else '' end as why,
    -- What its aggregate waits for, or itself: this is what retry, skip and accept-gap are about.
    case
        when not e.ordered then e.cause = 'failed' and not e.discarded
        when p.head in ('failed', 'waiting') and p.finding is null then e.cause = 'failed'
        else p.head in ('gap', 'waiting') and not exists (
            select from {schema}.parked o
            where o.consumer = e.consumer and o.aggregate = e.aggregate and o.ordered and o.version < e.version
        )
    end as heads,
    case when e.ordered then p.head = 'waiting' and (e.cause = 'failed' or p.finding is not null)
        else e.cause = 'failed' and e.due is null and not e.discarded
    end as waits,
    case when e.ordered then p.due else e.due end as next_try,
    case when e.cause = 'failed' and not e.discarded
        then coalesce(e.error_class || ': ', '') || coalesce({schema}.first_line(e.error), '')
    end as own,
    e.alike
from {schema}.parked e
join {schema}.consumers c on c.number = e.consumer
left join {schema}.positions p on p.consumer = e.consumer and p.aggregate = e.aggregate and e.ordered;

-- A row a change and none that two transactions would wait for: whoever reads adds them up. Runners merge them now and then, and count
-- anew, since processes of the release before go on for a while and count nothing.
create table {schema}.held_counts (
    consumer integer not null,
    head text collate "C" not null,
    aggregates bigint not null,
    events bigint not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
comment on table {schema}.held_counts is
    'Aggregates whose head is not clear, by its state, and the events that are parked for them: sums of rows.';
create index held_counts_consumer on {schema}.held_counts (consumer);
insert into {schema}.held_counts (consumer, head, aggregates, events)
select consumer, head, count(*), sum(parked) from {schema}.positions where head <> 'clear' group by consumer, head;

create table {schema}.parked_counts (
    consumer integer not null,
    cause text not null,
    type text not null,
    alike text collate "C" not null,
    state text,
    events bigint not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
comment on table {schema}.parked_counts is 'Parked events by group: sums of rows, as in held_counts.';
comment on column {schema}.parked_counts.state is
    'of events without order, which stand for themselves, what the head of an aggregate would be; null: their aggregate''s says it';
create index parked_counts_consumer on {schema}.parked_counts (consumer);

create function {schema}.parked_state(ordered boolean, cause text, due timestamptz)
returns text language sql immutable parallel safe as $$
    select case when ordered then null when cause = 'stored' then 'draining' when due is null then 'waiting' else 'failed' end
$$;
insert into {schema}.parked_counts (consumer, cause, type, alike, state, events)
select consumer, cause, type, alike, {schema}.parked_state(ordered, cause, due), count(*)
from {schema}.parked group by 1, 2, 3, 4, 5;

create table {schema}.minute_counts (
    consumer integer not null,
    runner integer not null,
    place smallint not null,
    minute timestamptz not null,
    applied bigint not null,
    failed bigint not null,
    primary key (consumer, place, runner)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table {schema}.minute_counts is
    'What each process has applied in each of its last sixty minutes: the next hour writes over the rows of this one.';
comment on column {schema}.minute_counts.place is 'which minute of an hour';
