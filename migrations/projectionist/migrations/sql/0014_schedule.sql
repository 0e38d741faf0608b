-- Side effects that are to happen later, and what takes them back before that.

-- Beside the outbox, so that whoever leases meets nothing that waits for its time.
create table {schema}.schedule (
    intent bigint primary key,
    consumer integer not null,
    aggregate text collate "C",
    version bigint,
    class text not null,
    slot text not null,
    due timestamptz not null,
    expires timestamptz,
    guard text not null check (guard in ('clock', 'caught_up')),
    look timestamptz,
    promoted timestamptz
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
comment on table {schema}.schedule is
    'One row per intent that is to be sent later, until its intent goes; it enters the outbox when it is due.';
comment on column {schema}.schedule.expires is 'from then on it is not sent any more';
comment on column {schema}.schedule.guard is
    'clock: sent when it is due; caught_up: once its consumer has settled what was published before, too';
comment on column {schema}.schedule.look is 'when to look at it next; null: nothing is left to be done here';
comment on column {schema}.schedule.promoted is 'when it entered the outbox';
-- Each consumer's next one, however many wait behind it.
create index schedule_look on {schema}.schedule (consumer, guard, look) where look is not null;
create index schedule_aggregate on {schema}.schedule (consumer, aggregate);

create table {schema}.cancels (
    seq bigint generated always as identity primary key,
    key text collate "C" not null unique,
    consumer integer not null,
    source text collate "C" not null,
    id text collate "C" not null,
    aggregate text collate "C" not null,
    version bigint not null,
    class text not null,
    classes text[] not null,
    slot text not null,
    created timestamptz not null,
    done timestamptz,
    hit integer not null default 0,
    late integer not null default 0
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
comment on table {schema}.cancels is
    'One row per Cancel that a handler has asked for: it takes back what lower versions of its aggregate scheduled.';
comment on column {schema}.cancels.classes is 'the class by all its names';
comment on column {schema}.cancels.hit is 'how many intents it has taken back';
comment on column {schema}.cancels.late is 'how many had begun, or were settled, when it came';
create index cancels_open on {schema}.cancels (seq) where done is null;
create index cancels_event on {schema}.cancels (consumer, source, id);

alter table {schema}.intents
    add column scheduled timestamptz,
    add column cancelled_by text collate "C",
    drop constraint intents_state_check,
    add constraint intents_state_check check (state in ('open', 'sent', 'discarded', 'cancelled'));
comment on column {schema}.intents.state is 'open: it stands in the outbox, where its state is, or in the schedule';
comment on column {schema}.intents.scheduled is 'when it was to be sent; null: at once';
comment on column {schema}.intents.cancelled_by is 'the key of the Cancel that took it back';

-- Until when everything published before is settled. One clock, the database's: it is asked before the stream is.
alter table {schema}.floors
    add column pending_seq bigint,
    add column pending_at timestamptz,
    add column caught_up timestamptz;
comment on column {schema}.floors.pending_seq is 'the last message that the stream had taken at pending_at, or later';
comment on column {schema}.floors.caught_up is 'what the stream had taken until then is settled';

create view {schema}.schedule_seen as
select s.intent, s.consumer, c.name, s.aggregate, s.due, s.expires, f.caught_up,
    case
        when s.due > clock_timestamp() then 'its time'
        when exists (select from {schema}.staged_intents g where g.refused is not null and g.consumer = s.consumer)
            then 'refused'
        when s.guard = 'caught_up' and not coalesce(f.caught_up >= s.due, false) then 'behind'
        when s.guard = 'caught_up' and exists (
            select from {schema}.parked p
            where p.consumer = s.consumer and p.aggregate = s.aggregate and p.ordered
        ) then 'parked'
        else 'relay'
    end as waits_for
from {schema}.schedule s
left join {schema}.consumers c on c.number = s.consumer
left join {schema}.floors f on f.consumer = c.number and f.durable = c.durable and f.incarnation = c.incarnation
where s.look is not null and s.promoted is null;
comment on view {schema}.schedule_seen is
    'What waits for its time, and what it waits for once it is due: refused intents of its consumer, its consumer to catch up (behind), its aggregate (parked), or a relay.';
