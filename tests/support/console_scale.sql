-- Fills a migrated database: `console_scale` says how much. One consumer has half of all events and nine tenths of what is parked; the
-- last one reads without order and has the rest.
set synchronous_commit = off;
insert into {s}.streams (name, incarnation, created) values ('SHOP', 1, clock_timestamp());
insert into {s}.consumers (name, stream, sequence, subjects, durable)
select 'Consumer' || lpad(n::text, 3, '0'), 'SHOP', case when n = {consumers} then 'unordered' else 'contiguous' end, 'shop.>',
    'consumer-' || n from generate_series(1, {consumers}) n;
insert into {s}.views (consumer, name, key_name, kind, shape, code)
select number, name, name, 'projection', '\x01', '\x01' from {s}.consumers;
-- Their hearts beat for as long as pages are looked at, which read those alone that are alive.
insert into {s}.runners (consumer, instance, host, pid, state, batches, p50_ms, p99_ms, lag, unacked, beat)
select number, gen_random_uuid(), 'host-' || each, number * 2 + each, 'running', 1000, 4.5, 20.0, 12, 3, clock_timestamp() + interval '1 day'
from {s}.consumers cross join generate_series(1, 2) each;
insert into {s}.floors (consumer, durable, incarnation, floor, top)
select number, durable, 1, {inbox}, {inbox} from {s}.consumers;

-- Indexes are made behind the rows, which takes a fraction of the time.
set maintenance_work_mem = '512MB';
create temporary table kept as
select c.relname as name, i.indisprimary as is_key, pg_get_indexdef(i.indexrelid) as made_by
from pg_index i join pg_class c on c.oid = i.indexrelid where i.indrelid = '{s}.inbox'::regclass;
alter table {s}.inbox drop constraint inbox_pkey;
do $$
declare one record;
begin
    for one in select * from kept where not is_key loop
        execute format('drop index {s}.%I', one.name);
    end loop;
end $$;

insert into {s}.inbox (
    consumer, source, id, state, incarnation, seq, subject, type, event_schema, aggregate, version, correlation, traceparent,
    hash, batch, received
)
select case when n % 2 = 0 then 1 else 1 + n / 2 % {consumers} end, 'urn:shop', md5(n::text)::uuid::text, 'applied', 1, n,
    'shop.order.' || n / {versions}, 'order.' || n % 4, 1, 'order/' || n / {versions}, 1 + n % {versions}, 'flow-' || n / 100,
    '00-' || md5((n / 100)::text) || '-' || left(md5(n::text), 16) || '-01', sha256(n::text::bytea), 1,
    clock_timestamp() - ({inbox} - n) * interval '10 ms'
from generate_series(1, {inbox}) n;
insert into {s}.positions (consumer, aggregate, version, seq)
select consumer, aggregate, max(version), max(seq) from {s}.inbox group by consumer, aggregate;

-- Of the first consumer: aggregates of which one event has failed, of one of three errors, and those behind it; some lack a version.
insert into {s}.parked (
    consumer, source, id, cause, aggregate, version, ordered, incarnation, seq, subject, type, event_schema, hash, attempts, due,
    error_class, error, stack, code, first_failed, last_failed, parked_at
)
select case when at.last then {consumers} else 1 end, 'urn:shop', 'held-' || n,
    case when at.last or at.place = 1 and not at.gap then 'failed' when at.gap then 'gap' else 'blocked' end,
    'held/' || at.aggregate, at.place + case when at.gap then 1 else 0 end, not at.last, 1, {inbox} + n, 'shop.held', 'order.' || at.aggregate % 4, 1,
    sha256(n::text::bytea), case when at.failed then 5 else 0 end, null,
    case when at.failed then 'ValueError' end,
    case when at.failed then (array['no price for ', 'unknown country ', 'stock of '])[1 + at.aggregate % 3] || n end,
    case when at.failed then 'File "/srv/shop/handlers.py", line 41, in placed' end,
    case when at.failed then '\x01'::bytea end, case when at.failed then clock_timestamp() end,
    case when at.failed then clock_timestamp() end, clock_timestamp() - ({parked} - n) * interval '10 ms'
from generate_series(1, {parked}) n
cross join lateral (select n / {behind} as aggregate, 1 + n % {behind} as place, n > {parked}::bigint * 9 / 10 as last,
    n / {behind} % 10 = 0 and n <= {parked}::bigint * 9 / 10 as gap) a
cross join lateral (select a.*, a.last or a.place = 1 and not a.gap as failed) at;
insert into {s}.inbox (
    consumer, source, id, state, verdict, incarnation, seq, subject, type, event_schema, aggregate, version, hash, batch, received
)
select consumer, source, id, 'parked', case cause when 'gap' then 'gap' when 'blocked' then 'blocked' else 'next' end, 1, seq,
    subject, type, 1, aggregate, version, hash, 1, parked_at
from {s}.parked;
do $$
declare one record;
begin
    for one in select * from kept loop
        execute one.made_by;
    end loop;
end $$;
alter table {s}.inbox add primary key using index inbox_pkey;
insert into {s}.positions (consumer, aggregate, version, head, parked, due)
select consumer, aggregate, 0, case when bool_or(cause = 'failed') then 'waiting' else 'gap' end, count(*),
    case when bool_or(cause = 'failed') then null else clock_timestamp() + interval '1 day' end
from {s}.parked where ordered group by consumer, aggregate;

insert into {s}.held_counts select consumer, head, count(*), sum(parked) from {s}.positions where head <> 'clear' group by 1, 2;
insert into {s}.parked_counts
select consumer, cause, type, alike, {s}.parked_state(ordered, cause, due), count(*) from {s}.parked group by 1, 2, 3, 4, 5;
insert into {s}.counters (consumer, runner, hour, type, outcome, n)
select c.number, 1, date_trunc('hour', statement_timestamp()) - hour * interval '1 hour', 'order.' || type, outcome, 1000
from {s}.consumers c cross join generate_series(0, {hours} - 1) hour cross join generate_series(0, 3) type
cross join unnest('{{applied,ignored,failed}}'::text[]) outcome;
insert into {s}.minute_counts (consumer, runner, place, minute, applied, failed)
select r.consumer, r.number, extract(minute from m at time zone 'UTC'), m, 100 + (random() * 900)::int, 0
from {s}.runners r cross join generate_series(
    date_trunc('minute', clock_timestamp()) - interval '59 min', date_trunc('minute', clock_timestamp()), interval '1 min') m;

insert into {s}.quarantine (consumer, incarnation, seq, reason, detail, subject, headers, data, hash, size, received)
select 1, 1, n, 'body', 'field price is missing of ' || n, 'shop.order', '\x', '\x7b7d', sha256(n::text::bytea), 2, clock_timestamp()
from generate_series(1, greatest({parked} / 100, 10)) n;
insert into {s}.incidents (consumer, kind, incarnation, seq, source, id, detail)
select 1, 'late', 1, n, 'urn:shop', 'held-' || n, 'it came late' from generate_series(1, 100) n;
insert into {s}.audit (who, action, object, reason)
select 'ann', 'retry', 'Consumer001: held-' || n, 'mended' from generate_series(1, 1000) n;
insert into {s}.intents (
    key, consumer, source, id, aggregate, version, slot, class, provider, destination, on_dead, body, hash, state, created, settled
)
select md5(n::text), 1, 'urn:shop', md5(n::text)::uuid::text, 'order/' || n / {versions}, 1 + n % {versions}, 'Receipt', 'Receipt',
    'email', 'mail.example', 'pass', '\x7b7d', '\x01', case when n % 100 = 0 then 'open' else 'sent' end, clock_timestamp(),
    case when n % 100 = 0 then null else clock_timestamp() end
from generate_series(1, {inbox} / 100) n;
insert into {s}.outbox (seq, provider, destination, lane, place, state, error)
select seq, provider, destination, key, seq, case when seq % 200 = 0 then 'dead' else 'ready' end,
    case when seq % 200 = 0 then '550 no such mailbox ' || seq end
from {s}.intents where state = 'open';
