-- What all migrations together make, written by `make snapshot`. Read it; never run or edit it.

CREATE SCHEMA projectionist;

CREATE FUNCTION projectionist.alike(message text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$
    select left(regexp_replace(split_part(message, E'\n', 1), $r$'[^']*'|"[^"]*"|[0-9]+$r$, '…', 'g'), 200)
$_$;

CREATE TABLE projectionist.audit (
    number bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    who text NOT NULL,
    action text NOT NULL COLLATE pg_catalog."C",
    object text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    session_role text,
    client text,
    os_user text
);

COMMENT ON TABLE projectionist.audit IS 'Every act of an operator: append only, and chained. The owner''s purge alone removes the oldest, if the settings say so.';

COMMENT ON COLUMN projectionist.audit.session_role IS 'who logged in to the database, by its own word; `who` is what was said';

COMMENT ON COLUMN projectionist.audit.client IS 'the address that the session came from; null: over a socket of the machine';

COMMENT ON COLUMN projectionist.audit.os_user IS 'the account that the process ran under, by the word of our client';

CREATE FUNCTION projectionist.audit_hash(before bytea, act projectionist.audit) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select sha256(before || convert_to(string_agg(coalesce(octet_length(field) || ':' || field, '-'), ',' order by n), 'UTF8'))
    from unnest(array[
        act.number::text, (extract(epoch from act.at) * 1000000)::bigint::text, act.who, act.action, act.object, act.reason,
        act.detail::text, act.session_role, act.client, act.os_user
    ]) with ordinality as fields (field, n)
$$;

CREATE FUNCTION projectionist.chain_act() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    head "projectionist".audit_head;
    last "projectionist".audit_chain;
begin
    select * into strict head from "projectionist".audit_head for update;
    select * into last from "projectionist".audit_chain order by place desc limit 1;
    if last is null then
        last.place := head.place;
        last.hash := head.hash;
    end if;
    if head.writer is distinct from pg_current_xact_id() then
        update "projectionist".audit_head set place = last.place, hash = last.hash, writer = pg_current_xact_id();
    end if;
    insert into "projectionist".audit_chain (place, number, hash)
    values (last.place + 1, new.number, "projectionist".audit_hash(last.hash, new));
    return null;
end $$;

CREATE FUNCTION projectionist.digest(message text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    select left(encode(sha256(convert_to(message, 'UTF8')), 'hex'), 8)
$$;

COMMENT ON FUNCTION projectionist.digest(message text) IS 'What stands for a text where it is not shown, as `projectionist.core.digest` makes it.';

CREATE FUNCTION projectionist.first_line(message text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    select split_part(message, E'\n', 1)
$$;

CREATE FUNCTION projectionist.guard_purge_act() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    if not has_table_privilege(tg_relid, 'delete') then
        raise exception 'role % may not say that acts were purged', current_user using errcode = 'insufficient_privilege';
    end if;
    return new;
end $$;

CREATE FUNCTION projectionist.keep_acts() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    if tg_op = 'DELETE' and current_setting('projectionist.purges', true) = 'audit' then
        return old;
    end if;
    if tg_level = 'ROW' and tg_op = 'UPDATE' and tg_table_name = 'audit_head' and pg_trigger_depth() > 1 then
        return new;
    end if;
    raise exception 'the audit trail is appended to and nothing else: % of %.% is refused', lower(tg_op), tg_table_schema, tg_table_name
        using errcode = 'object_not_in_prerequisite_state', hint = 'Acts leave it by `projectionist purge` alone.';
end $$;

CREATE FUNCTION projectionist.number_act() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    new.number := nextval(pg_get_serial_sequence(format('%I.%I', tg_table_schema, tg_table_name), 'number'));
    return new;
end $$;

CREATE FUNCTION projectionist.parked_state(ordered boolean, cause text, due timestamp with time zone) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    select case when ordered then null when cause = 'stored' then 'draining' when due is null then 'waiting' else 'failed' end
$$;

CREATE FUNCTION projectionist.why_parked(cause text, discarded boolean, error_class text, error text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    select case
        when discarded then 'discarded: stepped over in its turn'
        when cause = 'failed' then coalesce(error_class || ': ', '') || coalesce("projectionist".alike(error), '')
        when cause = 'blocked' then 'behind an event that failed'
        when cause = 'gap' then 'behind missing versions'
        else 'stored, not applied yet'
    end
$$;

CREATE FUNCTION projectionist.witness_act() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    new.at := clock_timestamp();
    new.session_role := session_user;
    new.client := host(inet_client_addr());
    new.os_user := nullif(current_setting('projectionist.os_user', true), '');
    return new;
end $$;

CREATE TABLE projectionist.archive (
    number bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    consumer integer,
    content jsonb NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.1');

COMMENT ON TABLE projectionist.archive IS 'Rows as they were when retention removed them, until their own time is over.';

ALTER TABLE projectionist.archive ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME projectionist.archive_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE projectionist.attempts (
    intent bigint NOT NULL,
    attempt integer NOT NULL,
    relay text NOT NULL,
    started timestamp with time zone NOT NULL,
    took_s double precision,
    outcome text NOT NULL,
    status text,
    provider_id text,
    reason text,
    excerpt text,
    replayed boolean DEFAULT false NOT NULL,
    CONSTRAINT attempts_outcome_check CHECK ((outcome = ANY (ARRAY['sent'::text, 'retry'::text, 'refused'::text, 'in_flight'::text, 'mismatch'::text, 'unknown'::text, 'sticky'::text, 'not_sent'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.1');

COMMENT ON TABLE projectionist.attempts IS 'One row per attempt that has ended; none for an intent that was sent at its first one, whose own row says all.';

CREATE TABLE projectionist.audit_chain (
    place bigint NOT NULL,
    number bigint NOT NULL,
    hash bytea NOT NULL
);

COMMENT ON TABLE projectionist.audit_chain IS 'One row per act, in the order of their commits. Apart from the acts, whose rows are never written twice.';

CREATE TABLE projectionist.audit_head (
    one boolean DEFAULT true NOT NULL,
    place bigint NOT NULL,
    hash bytea NOT NULL,
    writer xid8,
    CONSTRAINT audit_head_one_check CHECK (one)
)
WITH (fillfactor='50');

COMMENT ON TABLE projectionist.audit_head IS 'Locked by each act as the last thing of its transaction, in its commit: so acts wait for each other in one order.';

COMMENT ON COLUMN projectionist.audit_head.place IS 'where the chain ended before the transaction that wrote to it last: written once in each, however many its acts are';

CREATE SEQUENCE projectionist.audit_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE projectionist.audit_number_seq OWNED BY projectionist.audit.number;

CREATE TABLE projectionist.buckets (
    provider text NOT NULL COLLATE pg_catalog."C",
    destination text NOT NULL COLLATE pg_catalog."C",
    tokens double precision NOT NULL,
    granted integer NOT NULL,
    refilled timestamp with time zone NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE projectionist.buckets IS 'What is left of each destination''s rate, shared by all relays.';

CREATE TABLE projectionist.build_excluded (
    build integer NOT NULL,
    seq bigint NOT NULL
);

CREATE TABLE projectionist.build_positions (
    build integer NOT NULL,
    aggregate text NOT NULL COLLATE pg_catalog."C",
    cap bigint NOT NULL,
    version bigint NOT NULL
);

COMMENT ON TABLE projectionist.build_positions IS 'empty: where a generation that is not live stands is in build_positions_N, made like this, N being its build';

COMMENT ON COLUMN projectionist.build_positions.cap IS 'where the live generation stood when the build was opened';

CREATE TABLE projectionist.build_progress (
    build integer NOT NULL,
    doing text NOT NULL,
    done bigint NOT NULL,
    expected bigint NOT NULL,
    per_s double precision NOT NULL,
    told timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    rates real[] DEFAULT '{}'::real[] NOT NULL,
    measured timestamp with time zone,
    measured_done bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

COMMENT ON TABLE projectionist.build_progress IS 'What the builder of a build does, written every few seconds; apart from builds, whose row its transactions hold.';

COMMENT ON COLUMN projectionist.build_progress.rates IS 'how many were done a second in each stretch of some seconds, the newest last; those of an hour';

COMMENT ON COLUMN projectionist.build_progress.measured IS 'when the last of rates was measured, or what it does was begun';

COMMENT ON COLUMN projectionist.build_progress.measured_done IS 'how many were done then';

CREATE UNLOGGED TABLE projectionist.build_steps (
    build integer NOT NULL,
    n bigint NOT NULL,
    aggregate text COLLATE pg_catalog."C",
    version bigint,
    seq bigint
);

CREATE TABLE projectionist.build_views (
    build integer NOT NULL,
    view integer NOT NULL,
    generation integer NOT NULL,
    revision integer NOT NULL,
    shape bytea NOT NULL,
    code bytea NOT NULL,
    base bytea NOT NULL
);

COMMENT ON COLUMN projectionist.build_views.base IS 'the code live ran when the build was opened: no swap over newer code';

CREATE TABLE projectionist.builds (
    number integer NOT NULL,
    consumer integer NOT NULL,
    kind text NOT NULL,
    phase text NOT NULL,
    epoch bigint NOT NULL,
    owner text NOT NULL,
    incarnation integer NOT NULL,
    bulk_limit bigint DEFAULT 0 NOT NULL,
    buckets integer DEFAULT 1 NOT NULL,
    finished integer[] DEFAULT '{}'::integer[] NOT NULL,
    checkpoint bigint DEFAULT 0 NOT NULL,
    partial boolean DEFAULT false NOT NULL,
    positions integer,
    settled xid8,
    settled_at timestamp with time zone,
    started timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    touched timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ended timestamp with time zone,
    top bigint DEFAULT 0 NOT NULL,
    CONSTRAINT builds_kind_check CHECK ((kind = ANY (ARRAY['rebuild'::text, 'rollback'::text]))),
    CONSTRAINT builds_phase_check CHECK ((phase = ANY (ARRAY['open'::text, 'bulk'::text, 'catch_up'::text, 'done'::text, 'aborted'::text])))
)
WITH (fillfactor='50');

COMMENT ON COLUMN projectionist.builds.epoch IS 'of the lease of whoever builds: a flush under an older one is refused';

COMMENT ON COLUMN projectionist.builds.bulk_limit IS 'the bulk reads the stream up to here: everything below was settled by the live generation';

COMMENT ON COLUMN projectionist.builds.finished IS 'buckets of row keys whose rows are in the shadow';

COMMENT ON COLUMN projectionist.builds.checkpoint IS 'of a SqlProjection: up to which stream sequence its handlers have run';

COMMENT ON COLUMN projectionist.builds.positions IS 'under which build the positions of its generation stand; null: under its own number';

COMMENT ON COLUMN projectionist.builds.settled IS 'the transaction after which the shadow held its rows: older snapshots do not see them';

COMMENT ON COLUMN projectionist.builds.settled_at IS 'a moment after the commit of that transaction';

COMMENT ON COLUMN projectionist.builds.top IS 'up to this sequence a view that joins makes no effects: the stream''s last when it was opened, and what was folded since';

ALTER TABLE projectionist.builds ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME projectionist.builds_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE projectionist.cancels (
    seq bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    consumer integer NOT NULL,
    source text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    aggregate text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    class text NOT NULL,
    classes text[] NOT NULL,
    slot text NOT NULL,
    created timestamp with time zone NOT NULL,
    done timestamp with time zone,
    hit integer DEFAULT 0 NOT NULL,
    late integer DEFAULT 0 NOT NULL,
    view integer
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.02');

COMMENT ON TABLE projectionist.cancels IS 'One row per Cancel that a handler has asked for: it takes back what lower versions of its aggregate scheduled.';

COMMENT ON COLUMN projectionist.cancels.classes IS 'the class by all its names';

COMMENT ON COLUMN projectionist.cancels.hit IS 'how many intents it has taken back';

COMMENT ON COLUMN projectionist.cancels.late IS 'how many had begun, or were settled, when it came';

COMMENT ON COLUMN projectionist.cancels.view IS 'it takes back what this view scheduled';

ALTER TABLE projectionist.cancels ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME projectionist.cancels_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE projectionist.circuits (
    provider text NOT NULL COLLATE pg_catalog."C",
    destination text NOT NULL COLLATE pg_catalog."C",
    state text DEFAULT 'closed'::text NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    openings integer DEFAULT 0 NOT NULL,
    until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    held text,
    changed timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    pause_s double precision DEFAULT 0 NOT NULL,
    CONSTRAINT circuits_held_check CHECK ((held = ANY (ARRAY['gone'::text, 'unset'::text, 'missing'::text]))),
    CONSTRAINT circuits_state_check CHECK ((state = ANY (ARRAY['closed'::text, 'open'::text, 'half_open'::text])))
)
WITH (fillfactor='70');

COMMENT ON TABLE projectionist.circuits IS 'The circuit of each destination that has failed, shared by all relays; no row is a closed one.';

COMMENT ON COLUMN projectionist.circuits.held IS 'why nothing is sent there until somebody acts: gone (it said so), unset or missing (no such settings); destination * is all';

COMMENT ON COLUMN projectionist.circuits.pause_s IS 'how long the wait until then was meant to last, by the settings of who wrote it';

CREATE TABLE projectionist.code_fingerprints (
    view integer CONSTRAINT code_fingerprints_consumer_not_null NOT NULL,
    code bytea NOT NULL,
    adopted timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE projectionist.code_fingerprints IS 'Every fingerprint of handlers that a view has run with: one of the past does not start by itself.';

CREATE TABLE projectionist.consumer_breakers (
    consumer integer NOT NULL,
    state text NOT NULL,
    epoch integer NOT NULL,
    failures integer NOT NULL,
    openings integer NOT NULL,
    until timestamp with time zone NOT NULL,
    runner integer,
    reason text NOT NULL,
    changed timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    pause_s double precision DEFAULT 0 NOT NULL,
    CONSTRAINT consumer_breakers_state_check CHECK ((state = ANY (ARRAY['closed'::text, 'open'::text, 'half_open'::text])))
)
WITH (fillfactor='50');

COMMENT ON TABLE projectionist.consumer_breakers IS 'Consumers on which many keys failed at once: nothing is fetched while open, one runner tries while half open.';

COMMENT ON COLUMN projectionist.consumer_breakers.pause_s IS 'how long the wait until then was meant to last, by the settings of who wrote it';

CREATE TABLE projectionist.consumers (
    number integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    epoch bigint DEFAULT 1 NOT NULL,
    build integer,
    slot smallint DEFAULT 0 NOT NULL,
    stream text NOT NULL COLLATE pg_catalog."C",
    paused boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    sequence text DEFAULT 'contiguous'::text NOT NULL,
    baseline text DEFAULT 'first'::text NOT NULL,
    incarnation integer DEFAULT 1 NOT NULL,
    subjects text DEFAULT ''::text NOT NULL,
    durable text DEFAULT ''::text NOT NULL,
    repeats boolean DEFAULT false NOT NULL,
    CONSTRAINT consumers_sequence_check CHECK ((sequence = ANY (ARRAY['contiguous'::text, 'monotonic'::text, 'unordered'::text]))),
    CONSTRAINT consumers_slot_check CHECK ((slot = ANY (ARRAY[0, 1])))
);

COMMENT ON TABLE projectionist.consumers IS 'One control row per registered consumer: who reads what, in which order, under which epoch.';

COMMENT ON COLUMN projectionist.consumers.epoch IS 'Rises at every takeover; a batch that reads another epoch than its own rolls back.';

COMMENT ON COLUMN projectionist.consumers.build IS 'The open rebuild; while set, batches mark the aggregates they move as dirty.';

COMMENT ON COLUMN projectionist.consumers.slot IS 'Where batches write dirty marks; the builder empties the other slot.';

COMMENT ON COLUMN projectionist.consumers.repeats IS 'it was reset after decisions were recorded: live batches obey those, as a rebuild does';

ALTER TABLE projectionist.consumers ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME projectionist.consumers_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE projectionist.counters (
    consumer integer NOT NULL,
    runner integer NOT NULL,
    hour timestamp with time zone NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    outcome text NOT NULL COLLATE pg_catalog."C",
    n bigint NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');

CREATE TABLE projectionist.crash_marks (
    consumer integer NOT NULL,
    source text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    marks integer DEFAULT 1 NOT NULL,
    runner integer NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');

COMMENT ON TABLE projectionist.crash_marks IS 'Events that were about to be tried after a process had ended uncleanly. A mark that stays is a try without an end.';

CREATE TABLE projectionist.decisions (
    number bigint NOT NULL,
    consumer integer NOT NULL,
    kind text NOT NULL,
    aggregate text COLLATE pg_catalog."C",
    version bigint,
    upto bigint,
    source text COLLATE pg_catalog."C",
    id text COLLATE pg_catalog."C",
    incarnation integer,
    seq bigint,
    headers bytea,
    data bytea,
    hash bytea,
    actor text NOT NULL,
    reason text NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT decisions_kind_check CHECK ((kind = ANY (ARRAY['skip'::text, 'discard'::text, 'edit'::text, 'accept_gap'::text, 'winner'::text, 'baseline'::text, 'erase'::text])))
);

COMMENT ON COLUMN projectionist.decisions.seq IS 'with incarnation: about what stands in quarantine, and so about no version of an aggregate';

ALTER TABLE projectionist.decisions ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME projectionist.decisions_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE projectionist.dirty_marks (
    consumer integer NOT NULL,
    slot smallint NOT NULL,
    mark text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE projectionist.duplicates (
    consumer integer NOT NULL,
    incarnation integer NOT NULL,
    seq bigint NOT NULL,
    source text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    received timestamp with time zone DEFAULT clock_timestamp() NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.1');

CREATE TABLE projectionist.floors (
    consumer integer NOT NULL,
    durable text NOT NULL COLLATE pg_catalog."C",
    incarnation integer NOT NULL,
    floor bigint DEFAULT 0 NOT NULL,
    floor_hash bytea,
    floor_stored text,
    top bigint DEFAULT 0 NOT NULL,
    top_hash bytea,
    top_stored text,
    seen bigint DEFAULT 0 NOT NULL,
    deliveries bigint DEFAULT 0 NOT NULL,
    durable_created timestamp with time zone,
    timeline integer,
    written timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    purged bigint DEFAULT 0 NOT NULL,
    purged_from bigint,
    acked bigint,
    pending_seq bigint,
    pending_at timestamp with time zone,
    caught_up timestamp with time zone
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

COMMENT ON TABLE projectionist.floors IS 'Written every few seconds in a transaction of its own: whatever lies at or below a floor was committed before it.';

COMMENT ON COLUMN projectionist.floors.floor IS 'The broker''s ack floor: up to here every event of the stream is settled.';

COMMENT ON COLUMN projectionist.floors.floor_hash IS 'Of the content of the message there, which shows that a stream is another one.';

COMMENT ON COLUMN projectionist.floors.top IS 'The last message of the stream when this was written.';

COMMENT ON COLUMN projectionist.floors.seen IS 'Up to here nothing of this consumer was outstanding, whoever the messages are for.';

COMMENT ON COLUMN projectionist.floors.deliveries IS 'The broker''s count; one that is lower later was reset by somebody else.';

COMMENT ON COLUMN projectionist.floors.timeline IS 'Of PostgreSQL: another one means a failover or a restore.';

COMMENT ON COLUMN projectionist.floors.purged IS 'Up to this stream sequence rows of settled events may have been removed. Never above the floor.';

COMMENT ON COLUMN projectionist.floors.purged_from IS 'The lowest stream sequence of a removed row; 0: of an earlier stream. What a rebuild would lack is judged by it.';

COMMENT ON COLUMN projectionist.floors.acked IS 'How many deliveries the broker had counted up to the floor; null: not known, so the stream is asked what lies above it.';

COMMENT ON COLUMN projectionist.floors.pending_seq IS 'the last message that the stream had taken at pending_at, or later';

COMMENT ON COLUMN projectionist.floors.caught_up IS 'what the stream had taken until then is settled';

CREATE TABLE projectionist.generations (
    view integer CONSTRAINT generations_consumer_not_null NOT NULL,
    generation integer NOT NULL,
    state text NOT NULL,
    tables jsonb NOT NULL,
    shape bytea NOT NULL,
    code bytea NOT NULL,
    created timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    revision integer DEFAULT 1 NOT NULL,
    build integer,
    kept_until timestamp with time zone,
    CONSTRAINT generations_state_check CHECK ((state = ANY (ARRAY['live'::text, 'building'::text, 'kept'::text, 'dropped'::text])))
);

COMMENT ON COLUMN projectionist.generations.build IS 'of a kept generation: the build whose positions say where it stands';

CREATE TABLE projectionist.held_counts (
    consumer integer NOT NULL,
    head text NOT NULL COLLATE pg_catalog."C",
    aggregates bigint NOT NULL,
    events bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

COMMENT ON TABLE projectionist.held_counts IS 'Aggregates whose head is not clear, by its state, and the events that are parked for them: sums of rows.';

CREATE TABLE projectionist.inbox (
    consumer integer NOT NULL,
    source text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    verdict text DEFAULT 'next'::text NOT NULL,
    incarnation integer NOT NULL,
    seq bigint NOT NULL,
    subject text NOT NULL,
    type text NOT NULL,
    event_schema integer NOT NULL,
    aggregate text COLLATE pg_catalog."C",
    version bigint,
    correlation text,
    causation text,
    traceparent text,
    tracestate text,
    hash bytea NOT NULL,
    batch bigint NOT NULL,
    received timestamp with time zone NOT NULL,
    processed timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    data bytea,
    idle boolean DEFAULT false NOT NULL,
    CONSTRAINT inbox_state_check CHECK ((state = ANY (ARRAY['applied'::text, 'ignored'::text, 'stale'::text, 'parked'::text, 'quarantined'::text, 'skipped'::text, 'discarded'::text, 'erased'::text]))),
    CONSTRAINT inbox_verdict_check CHECK ((verdict = ANY (ARRAY['next'::text, 'stale'::text, 'gap'::text, 'blocked'::text, 'reused'::text, 'late'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='50000', autovacuum_vacuum_insert_scale_factor='0.05', autovacuum_analyze_scale_factor='0.05');

COMMENT ON COLUMN projectionist.inbox.state IS 'erased: its content was removed, or could not be decrypted any more, and nothing of it is applied';

COMMENT ON COLUMN projectionist.inbox.idle IS 'applied without effect: the condition (when=) of its handler did not hold';

CREATE TABLE projectionist.incidents (
    number bigint NOT NULL,
    consumer integer NOT NULL,
    kind text NOT NULL,
    incarnation integer NOT NULL,
    seq bigint NOT NULL,
    source text,
    id text,
    aggregate text,
    version bigint,
    detail text NOT NULL,
    opened timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    closed timestamp with time zone,
    settled text
);

COMMENT ON COLUMN projectionist.incidents.settled IS 'by which event or act it was closed without somebody having to close it; null: open, or closed by a person';

ALTER TABLE projectionist.incidents ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME projectionist.incidents_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE projectionist.intents (
    seq bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    consumer integer NOT NULL,
    source text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    aggregate text COLLATE pg_catalog."C",
    version bigint,
    slot text NOT NULL,
    class text NOT NULL,
    provider text NOT NULL,
    destination text NOT NULL,
    ordering text COLLATE pg_catalog."C",
    on_dead text NOT NULL,
    body bytea NOT NULL,
    hash bytea NOT NULL,
    traceparent text,
    tracestate text,
    state text DEFAULT 'open'::text NOT NULL,
    created timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt integer,
    first_started timestamp with time zone,
    wire_hash bytea,
    status text,
    provider_id text,
    excerpt text,
    error text,
    settled timestamp with time zone,
    memory_s double precision,
    baggage text,
    scheduled timestamp with time zone,
    cancelled_by text COLLATE pg_catalog."C",
    view integer,
    scope text,
    CONSTRAINT intents_on_dead_check CHECK ((on_dead = ANY (ARRAY['pass'::text, 'block'::text]))),
    CONSTRAINT intents_state_check CHECK ((state = ANY (ARRAY['open'::text, 'sent'::text, 'discarded'::text, 'cancelled'::text])))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02');

COMMENT ON COLUMN projectionist.intents.state IS 'open: it stands in the outbox, where its state is, or in the schedule';

COMMENT ON COLUMN projectionist.intents.attempt IS 'the attempt that settled it; what follows is from its reply';

COMMENT ON COLUMN projectionist.intents.memory_s IS 'how long the provider remembers the key, from first_started on: the row is needed as long';

COMMENT ON COLUMN projectionist.intents.baggage IS 'allowed members of the baggage of the event behind it; null for none';

COMMENT ON COLUMN projectionist.intents.scheduled IS 'when it was to be sent; null: at once';

COMMENT ON COLUMN projectionist.intents.cancelled_by IS 'the key of the Cancel that took it back';

COMMENT ON COLUMN projectionist.intents.view IS 'whose handler asked for it';

COMMENT ON COLUMN projectionist.intents.scope IS 'the key of the row it was asked for with, as JSON; null: a handler of one row asked, or it is from before scopes were on record';

ALTER TABLE projectionist.intents ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME projectionist.intents_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE projectionist.leases (
    name text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    epoch bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

COMMENT ON TABLE projectionist.leases IS 'Who may do a thing that one process at a time may do; a row outlives its lease so that the epoch only rises.';

CREATE TABLE projectionist.migrations (
    number integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    checksum bytea NOT NULL,
    release text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE projectionist.migrations IS 'One row per applied migration; the checksum shows when a released file was edited.';

CREATE TABLE projectionist.minute_counts (
    consumer integer NOT NULL,
    runner integer NOT NULL,
    place smallint NOT NULL,
    minute timestamp with time zone NOT NULL,
    applied bigint NOT NULL,
    failed bigint NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');

COMMENT ON TABLE projectionist.minute_counts IS 'What each process has applied in each of its last sixty minutes: the next hour writes over the rows of this one.';

COMMENT ON COLUMN projectionist.minute_counts.place IS 'which minute of an hour';

CREATE TABLE projectionist.names (
    view integer CONSTRAINT names_consumer_not_null NOT NULL,
    kind text NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL,
    first_seen timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT names_kind_check CHECK ((kind = ANY (ARRAY['slot'::text, 'event'::text])))
);

CREATE TABLE projectionist.operation_items (
    operation bigint NOT NULL,
    place bigint NOT NULL,
    alike integer NOT NULL,
    sample smallint NOT NULL,
    judged boolean NOT NULL,
    consumer integer NOT NULL,
    source text COLLATE pg_catalog."C",
    id text COLLATE pg_catalog."C",
    aggregate text COLLATE pg_catalog."C",
    version bigint NOT NULL,
    attempts integer NOT NULL,
    state text DEFAULT 'waiting'::text NOT NULL,
    note text,
    incarnation integer,
    seq bigint,
    intent bigint,
    seen text,
    CONSTRAINT operation_items_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'tried'::text, 'done'::text, 'failed'::text, 'refused'::text]))),
    CONSTRAINT operation_items_subject CHECK (((seq IS NOT NULL) OR (intent IS NOT NULL) OR ((source IS NOT NULL) AND (id IS NOT NULL))))
)
WITH (fillfactor='80');

COMMENT ON TABLE projectionist.operation_items IS 'What an operation is about, in the order in which it comes to it, as it stood when the operation began.';

COMMENT ON COLUMN projectionist.operation_items.alike IS 'the group of failures that are alike';

COMMENT ON COLUMN projectionist.operation_items.sample IS 'which of the growing samples of its group it is in';

COMMENT ON COLUMN projectionist.operation_items.judged IS 'whether it is told what became of it; otherwise it is done once it is due';

COMMENT ON COLUMN projectionist.operation_items.aggregate IS 'null: it waits in no order';

COMMENT ON COLUMN projectionist.operation_items.seq IS 'of an entry of quarantine, with its incarnation; null: it is a parked event';

COMMENT ON COLUMN projectionist.operation_items.intent IS 'of an intent: its number; null: it is something else';

COMMENT ON COLUMN projectionist.operation_items.seen IS 'of an intent: its state when the operation began';

CREATE TABLE projectionist.operation_samples (
    operation bigint NOT NULL,
    alike integer NOT NULL,
    sample smallint NOT NULL,
    consumer integer NOT NULL,
    judged boolean NOT NULL,
    first bigint NOT NULL,
    items bigint NOT NULL,
    tried bigint DEFAULT 0 NOT NULL,
    done bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    refused bigint DEFAULT 0 NOT NULL,
    left_alone bigint DEFAULT 0 NOT NULL,
    open boolean DEFAULT true NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE projectionist.operation_samples IS 'The growing samples of each group of an operation, in the order in which it comes to them, and what became of their items.';

COMMENT ON COLUMN projectionist.operation_samples.alike IS 'the group of failures that are alike';

COMMENT ON COLUMN projectionist.operation_samples.judged IS 'whether it is told what became of its items; otherwise each is done once it is due';

COMMENT ON COLUMN projectionist.operation_samples.first IS 'the place of its first item; the others follow';

COMMENT ON COLUMN projectionist.operation_samples.tried IS 'items that are to be tried at once, of which nothing is known yet';

COMMENT ON COLUMN projectionist.operation_samples.left_alone IS 'items that are left alone, since none of the sample before it got through';

COMMENT ON COLUMN projectionist.operation_samples.open IS 'whether there is something to do in it: an item that waits, or is tried';

CREATE TABLE projectionist.operations (
    number bigint NOT NULL,
    kind text NOT NULL,
    chosen jsonb NOT NULL,
    who text NOT NULL,
    reason text NOT NULL,
    rate double precision NOT NULL,
    patience_s double precision NOT NULL,
    began timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    matched bigint DEFAULT 0 NOT NULL,
    done bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    refused bigint DEFAULT 0 NOT NULL,
    owner text,
    epoch bigint DEFAULT 0 NOT NULL,
    beat timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    stop_asked_by text,
    stop_reason text,
    ended timestamp with time zone,
    outcome text,
    note text,
    phase text,
    per_s double precision,
    CONSTRAINT operations_check CHECK (((ended IS NULL) = (outcome IS NULL))),
    CONSTRAINT operations_outcome_check CHECK ((outcome = ANY (ARRAY['done'::text, 'none_got_through'::text, 'untried'::text, 'stopped'::text, 'failed'::text])))
)
WITH (fillfactor='50');

COMMENT ON TABLE projectionist.operations IS 'One row per operation. Any process may carry it out, one at a time, and any may ask it to stop.';

COMMENT ON COLUMN projectionist.operations.chosen IS 'the filters that chose its items when it began';

COMMENT ON COLUMN projectionist.operations.rate IS 'at most so many items a second';

COMMENT ON COLUMN projectionist.operations.patience_s IS 'how long it waits until an item that is to be tried has been';

COMMENT ON COLUMN projectionist.operations.done IS 'items that got through';

COMMENT ON COLUMN projectionist.operations.failed IS 'items that were tried once more, and failed again';

COMMENT ON COLUMN projectionist.operations.refused IS 'items that had moved since it began, or that nothing could be done about';

COMMENT ON COLUMN projectionist.operations.owner IS 'who carries it out; null: nobody, and another may';

COMMENT ON COLUMN projectionist.operations.epoch IS 'rises with each that carries it out: what an older one does is refused';

COMMENT ON COLUMN projectionist.operations.beat IS 'the last sign of life of who carries it out, or when it let go';

COMMENT ON COLUMN projectionist.operations.note IS 'why it ended before all was done, or why nobody carries it out';

COMMENT ON COLUMN projectionist.operations.phase IS 'of a long act: what it is at; done is of this phase, and matched what it is about';

COMMENT ON COLUMN projectionist.operations.per_s IS 'of a long act: how many are done a second in this phase; otherwise it follows from what is settled';

ALTER TABLE projectionist.operations ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME projectionist.operations_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE projectionist.outbox (
    seq bigint NOT NULL,
    provider text NOT NULL COLLATE pg_catalog."C",
    destination text NOT NULL COLLATE pg_catalog."C",
    lane text NOT NULL COLLATE pg_catalog."C",
    place bigint NOT NULL,
    open boolean DEFAULT true NOT NULL,
    state text DEFAULT 'ready'::text NOT NULL,
    token uuid,
    lease_until timestamp with time zone,
    due timestamp with time zone,
    attempt integer DEFAULT 0 NOT NULL,
    spent integer DEFAULT 0 NOT NULL,
    first_started timestamp with time zone,
    started timestamp with time zone,
    lookup_hint text,
    wire bytea,
    wire_hash bytea,
    error text,
    epoch integer,
    doubted boolean DEFAULT false NOT NULL,
    CONSTRAINT outbox_open_check CHECK ((open OR (state = 'dead'::text))),
    CONSTRAINT outbox_state_check CHECK ((state = ANY (ARRAY['ready'::text, 'leased'::text, 'started'::text, 'unknown'::text, 'reconcile'::text, 'dead'::text, 'held'::text])))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');

COMMENT ON TABLE projectionist.outbox IS 'One row per intent that is not settled, or dead until somebody looks at it.';

COMMENT ON COLUMN projectionist.outbox.lane IS 'the ordering key, or the intent''s own key: one of a lane is in flight, the first';

COMMENT ON COLUMN projectionist.outbox.place IS 'its number, unless it was passed while dead: then the end of its lane';

COMMENT ON COLUMN projectionist.outbox.open IS 'false: dead and passed, those behind it go on';

COMMENT ON COLUMN projectionist.outbox.attempt IS 'the number of the last attempt: it only rises, and a reply settles its own alone';

COMMENT ON COLUMN projectionist.outbox.spent IS 'attempts that count against the limit';

COMMENT ON COLUMN projectionist.outbox.first_started IS 'when bytes may have left for the first time: the provider''s memory counts from here';

COMMENT ON COLUMN projectionist.outbox.lookup_hint IS 'what the provider noted before the first attempt, for a later lookup';

COMMENT ON COLUMN projectionist.outbox.wire IS 'the bytes every attempt sends, made at the first one, or when the event was recorded; null if they are the body';

COMMENT ON COLUMN projectionist.outbox.epoch IS 'of the home in which it was last leased: there that doubt is known';

COMMENT ON COLUMN projectionist.outbox.doubted IS 'what came of an attempt before is unknown: it may have been done';

CREATE TABLE projectionist.own_names (
    name text NOT NULL COLLATE pg_catalog."C",
    consumer integer NOT NULL
);

COMMENT ON TABLE projectionist.own_names IS 'Public names, schema.table; the tables of all their generations have names that are derived from them alone.';

CREATE TABLE projectionist.owner (
    one boolean DEFAULT true NOT NULL,
    system text,
    timeline integer NOT NULL,
    database oid NOT NULL,
    name text NOT NULL,
    home oid NOT NULL,
    token uuid DEFAULT gen_random_uuid() NOT NULL,
    before uuid,
    since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT owner_one_check CHECK (one)
);

COMMENT ON TABLE projectionist.owner IS 'Where this schema was at home when somebody last ran on it. Durables bear its token.';

COMMENT ON COLUMN projectionist.owner.system IS 'Identifier of the cluster; null where this role may not read it.';

COMMENT ON COLUMN projectionist.owner.home IS 'The table of consumers: a dump that is restored gives it another number.';

COMMENT ON COLUMN projectionist.owner.before IS 'The token before the last failover, restore or adoption: durables that bear it are ours to take over.';

CREATE TABLE projectionist.parked (
    consumer integer NOT NULL,
    source text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    cause text NOT NULL,
    aggregate text COLLATE pg_catalog."C",
    version bigint,
    ordered boolean NOT NULL,
    incarnation integer NOT NULL,
    seq bigint NOT NULL,
    subject text NOT NULL,
    type text NOT NULL,
    event_schema integer NOT NULL,
    event_time text,
    correlation text,
    causation text,
    traceparent text,
    tracestate text,
    hash bytea NOT NULL,
    edited_hash bytea,
    data bytea,
    problem text,
    attempts integer DEFAULT 0 NOT NULL,
    budget integer,
    due timestamp with time zone,
    error_class text,
    error text,
    stack text,
    code bytea,
    discarded boolean DEFAULT false NOT NULL,
    first_failed timestamp with time zone,
    last_failed timestamp with time zone,
    parked_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    baggage text,
    view integer,
    alike text GENERATED ALWAYS AS (projectionist.digest(projectionist.why_parked(cause, discarded, error_class, error))) STORED COLLATE pg_catalog."C",
    CONSTRAINT parked_cause_check CHECK ((cause = ANY (ARRAY['gap'::text, 'failed'::text, 'blocked'::text, 'stored'::text])))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');

COMMENT ON COLUMN projectionist.parked.data IS 'null: a reference, the stream holds the bytes at (incarnation, seq)';

COMMENT ON COLUMN projectionist.parked.code IS 'fingerprint of the code that failed on it: newer code tries again';

COMMENT ON COLUMN projectionist.parked.discarded IS 'decided against while it waited: stepped over when its turn comes';

COMMENT ON COLUMN projectionist.parked.baggage IS 'allowed members of the event''s baggage, as a header holds them; null for none';

COMMENT ON COLUMN projectionist.parked.view IS 'whose handler failed; null: none, or nobody knows';

COMMENT ON COLUMN projectionist.parked.alike IS 'digest of why it waits, without numbers and quoted values: one for each group';

CREATE TABLE projectionist.parked_counts (
    consumer integer NOT NULL,
    cause text NOT NULL,
    type text NOT NULL,
    alike text NOT NULL COLLATE pg_catalog."C",
    state text,
    events bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

COMMENT ON TABLE projectionist.parked_counts IS 'Parked events by group: sums of rows, as in held_counts.';

COMMENT ON COLUMN projectionist.parked_counts.state IS 'of events without order, which stand for themselves, what the head of an aggregate would be; null: their aggregate''s says it';

CREATE TABLE projectionist.positions (
    consumer integer NOT NULL,
    aggregate text NOT NULL COLLATE pg_catalog."C",
    version bigint DEFAULT 0 NOT NULL,
    head text DEFAULT 'clear'::text NOT NULL,
    finding text,
    parked integer DEFAULT 0 NOT NULL,
    due timestamp with time zone,
    seq bigint,
    owner integer,
    CONSTRAINT positions_finding_check CHECK ((finding = ANY (ARRAY['in_flight'::text, 'purged'::text, 'filtered'::text, 'lost'::text, 'implausible'::text]))),
    CONSTRAINT positions_head_check CHECK ((head = ANY (ARRAY['clear'::text, 'gap'::text, 'failed'::text, 'waiting'::text, 'draining'::text])))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.05', autovacuum_analyze_scale_factor='0.05');

COMMENT ON COLUMN projectionist.positions.owner IS 'the runner that has claimed what is stored for this aggregate';

CREATE VIEW projectionist.parked_seen AS
 SELECT e.consumer,
    c.name,
    e.incarnation,
    e.seq,
    e.source,
    e.id,
    e.cause,
    e.type,
    e.aggregate,
    e.version,
    e.ordered,
    e.discarded,
    e.attempts,
    e.budget,
    e.due,
    e.parked_at,
    e.first_failed,
    e.last_failed,
    p.version AS "position",
    p.head,
    p.finding,
    (projectionist.why_parked(e.cause, e.discarded, e.error_class, e.error) ||
        CASE
            WHEN ((e.cause = 'gap'::text) AND (NOT e.discarded)) THEN COALESCE((': '::text || p.finding), ''::text)
            ELSE ''::text
        END) AS why,
        CASE
            WHEN (NOT e.ordered) THEN ((e.cause = 'failed'::text) AND (NOT e.discarded))
            WHEN ((p.head = ANY (ARRAY['failed'::text, 'waiting'::text])) AND (p.finding IS NULL)) THEN (e.cause = 'failed'::text)
            ELSE ((p.head = ANY (ARRAY['gap'::text, 'waiting'::text])) AND (NOT (EXISTS ( SELECT
               FROM projectionist.parked o
              WHERE ((o.consumer = e.consumer) AND (o.aggregate = e.aggregate) AND o.ordered AND (o.version < e.version))))))
        END AS heads,
        CASE
            WHEN e.ordered THEN ((p.head = 'waiting'::text) AND ((e.cause = 'failed'::text) OR (p.finding IS NOT NULL)))
            ELSE ((e.cause = 'failed'::text) AND (e.due IS NULL) AND (NOT e.discarded))
        END AS waits,
        CASE
            WHEN e.ordered THEN p.due
            ELSE e.due
        END AS next_try,
        CASE
            WHEN ((e.cause = 'failed'::text) AND (NOT e.discarded)) THEN (COALESCE((e.error_class || ': '::text), ''::text) || COALESCE(projectionist.first_line(e.error), ''::text))
            ELSE NULL::text
        END AS own,
    e.alike
   FROM ((projectionist.parked e
     JOIN projectionist.consumers c ON ((c.number = e.consumer)))
     LEFT JOIN projectionist.positions p ON (((p.consumer = e.consumer) AND (p.aggregate = e.aggregate) AND e.ordered)));

COMMENT ON VIEW projectionist.parked_seen IS 'Parked events as operators see them: why each waits, and for whom.';

CREATE TABLE projectionist.quarantine (
    consumer integer NOT NULL,
    incarnation integer NOT NULL,
    seq bigint NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    state text DEFAULT 'quarantined'::text NOT NULL,
    subject text NOT NULL,
    source text,
    id text,
    aggregate text,
    version bigint,
    headers bytea,
    data bytea,
    size integer NOT NULL,
    hash bytea NOT NULL,
    edit bigint,
    attempts integer DEFAULT 0 NOT NULL,
    due timestamp with time zone,
    code bytea,
    received timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT quarantine_state_check CHECK ((state = ANY (ARRAY['quarantined'::text, 'released'::text, 'discarded'::text])))
);

COMMENT ON COLUMN projectionist.quarantine.data IS 'null: a reference, the stream holds it at (incarnation, seq); or erased, or no longer kept';

COMMENT ON COLUMN projectionist.quarantine.hash IS 'of the whole data alone; headers and data stay as they came';

COMMENT ON COLUMN projectionist.quarantine.edit IS 'the decision that holds the headers and data to read instead';

COMMENT ON COLUMN projectionist.quarantine.due IS 'somebody, or new code, wants it read again: no one else asked since if it is the same';

COMMENT ON COLUMN projectionist.quarantine.code IS 'fingerprint of the code that could not read it: newer code tries again';

CREATE VIEW projectionist.quarantine_seen AS
 SELECT q.consumer,
    c.name,
    q.incarnation,
    q.seq,
    q.reason AS cause,
    projectionist.alike(q.detail) AS why,
    q.state,
    q.subject,
    q.source,
    q.id,
    q.aggregate,
    q.version,
    q.attempts,
    q.due,
    q.size,
    q.received,
    projectionist.first_line(q.detail) AS own
   FROM (projectionist.quarantine q
     JOIN projectionist.consumers c ON ((c.number = q.consumer)));

COMMENT ON VIEW projectionist.quarantine_seen IS 'Quarantine as operators see it.';

CREATE TABLE projectionist.recorded_aggregates (
    stream text NOT NULL COLLATE pg_catalog."C",
    aggregate text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    CONSTRAINT recorded_aggregates_version_check CHECK ((version > 0))
)
WITH (fillfactor='70');

COMMENT ON TABLE projectionist.recorded_aggregates IS 'One row per aggregate whose events were recorded through the outbox; whoever records one locks it until the commit.';

COMMENT ON COLUMN projectionist.recorded_aggregates.version IS 'of its newest event; set it once for an aggregate whose first events were published in another way';

CREATE TABLE projectionist.relay_owner (
    one boolean DEFAULT true NOT NULL,
    token uuid NOT NULL,
    epoch integer DEFAULT 1 NOT NULL,
    doubted bigint DEFAULT 0 NOT NULL,
    since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT relay_owner_one_check CHECK (one)
);

COMMENT ON TABLE projectionist.relay_owner IS 'The token of the owner for which relays last sent, one row.';

COMMENT ON COLUMN projectionist.relay_owner.epoch IS 'how many homes there were';

COMMENT ON COLUMN projectionist.relay_owner.doubted IS 'the last intent from before it: each up to here may have been sent, whatever its row says';

CREATE TABLE projectionist.relays (
    instance uuid NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    providers text[] NOT NULL,
    started timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    beat timestamp with time zone DEFAULT clock_timestamp() NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE projectionist.relays IS 'One row a relay that works: it beats every few seconds, and removes its row when it stops.';

CREATE TABLE projectionist.retired_consumers (
    name text NOT NULL COLLATE pg_catalog."C",
    consumer integer NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    who text NOT NULL,
    reason text NOT NULL
);

COMMENT ON TABLE projectionist.retired_consumers IS 'Names that consumers bore until they were retired; the names of their read models stay theirs in own_names.';

CREATE TABLE projectionist.roles (
    duty text NOT NULL COLLATE pg_catalog."C",
    role text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT roles_duty_check CHECK ((duty = ANY (ARRAY['owner'::text, 'runner'::text, 'relay'::text, 'operator'::text, 'observer'::text, 'recorder'::text, 'reader'::text])))
);

COMMENT ON TABLE projectionist.roles IS 'Written by `projectionist roles apply`; who makes a table gives it the rights of these.';

CREATE TABLE projectionist.runners (
    number integer NOT NULL,
    consumer integer NOT NULL,
    instance uuid NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    code bytea,
    state text DEFAULT 'starting'::text NOT NULL,
    started timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    beat timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    stopped timestamp with time zone,
    batches bigint DEFAULT 0 NOT NULL,
    p50_ms double precision,
    p99_ms double precision,
    lag bigint,
    unacked bigint,
    leased_until timestamp with time zone,
    backends integer[] DEFAULT '{}'::integer[] NOT NULL,
    headers jsonb
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

COMMENT ON COLUMN projectionist.runners.leased_until IS 'the lease behind all claims of this runner';

COMMENT ON COLUMN projectionist.runners.backends IS 'The sessions of its batches, for whoever they keep waiting when it is dead or frozen.';

COMMENT ON COLUMN projectionist.runners.headers IS 'the header, in lower case, that each part of the envelope is read from';

ALTER TABLE projectionist.runners ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME projectionist.runners_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE projectionist.schedule (
    intent bigint NOT NULL,
    consumer integer NOT NULL,
    aggregate text COLLATE pg_catalog."C",
    version bigint,
    class text NOT NULL,
    slot text NOT NULL,
    due timestamp with time zone NOT NULL,
    expires timestamp with time zone,
    guard text NOT NULL,
    look timestamp with time zone,
    promoted timestamp with time zone,
    CONSTRAINT schedule_guard_check CHECK ((guard = ANY (ARRAY['clock'::text, 'caught_up'::text])))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02');

COMMENT ON TABLE projectionist.schedule IS 'One row per intent that is to be sent later, until its intent goes; it enters the outbox when it is due.';

COMMENT ON COLUMN projectionist.schedule.expires IS 'from then on it is not sent any more';

COMMENT ON COLUMN projectionist.schedule.guard IS 'clock: sent when it is due; caught_up: once its consumer has settled what was published before, too';

COMMENT ON COLUMN projectionist.schedule.look IS 'when to look at it next; null: nothing is left to be done here';

COMMENT ON COLUMN projectionist.schedule.promoted IS 'when it entered the outbox';

CREATE TABLE projectionist.staged_intents (
    seq bigint NOT NULL,
    consumer integer NOT NULL,
    incarnation integer NOT NULL,
    intents integer NOT NULL,
    encoded bytea NOT NULL,
    created timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    refused text
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', toast.autovacuum_vacuum_scale_factor='0', toast.autovacuum_vacuum_threshold='10000');
ALTER TABLE ONLY projectionist.staged_intents ALTER COLUMN encoded SET STORAGE EXTERNAL;

COMMENT ON TABLE projectionist.staged_intents IS 'One row per batch that asked for side effects, until they stand in intents and outbox.';

COMMENT ON COLUMN projectionist.staged_intents.intents IS 'how many they are';

COMMENT ON COLUMN projectionist.staged_intents.encoded IS 'JSON: for each column of intents its values, in the order they were asked for';

COMMENT ON COLUMN projectionist.staged_intents.refused IS 'why it could not be opened; the next relay that starts tries it again';

CREATE VIEW projectionist.schedule_seen AS
 SELECT s.intent,
    s.consumer,
    c.name,
    s.aggregate,
    s.due,
    s.expires,
    f.caught_up,
        CASE
            WHEN (s.due > clock_timestamp()) THEN 'its time'::text
            WHEN (EXISTS ( SELECT
               FROM projectionist.staged_intents g
              WHERE ((g.refused IS NOT NULL) AND (g.consumer = s.consumer)))) THEN 'refused'::text
            WHEN ((s.guard = 'caught_up'::text) AND (NOT COALESCE((f.caught_up >= s.due), false))) THEN 'behind'::text
            WHEN ((s.guard = 'caught_up'::text) AND (EXISTS ( SELECT
               FROM projectionist.parked p
              WHERE ((p.consumer = s.consumer) AND (p.aggregate = s.aggregate) AND p.ordered)))) THEN 'parked'::text
            ELSE 'relay'::text
        END AS waits_for
   FROM ((projectionist.schedule s
     LEFT JOIN projectionist.consumers c ON ((c.number = s.consumer)))
     LEFT JOIN projectionist.floors f ON (((f.consumer = c.number) AND (f.durable = c.durable) AND (f.incarnation = c.incarnation))))
  WHERE ((s.look IS NOT NULL) AND (s.promoted IS NULL));

COMMENT ON VIEW projectionist.schedule_seen IS 'What waits for its time, and what it waits for once it is due: refused intents of its consumer, its consumer to catch up (behind), its aggregate (parked), or a relay.';

CREATE TABLE projectionist.setbacks (
    instance uuid NOT NULL,
    consumer text NOT NULL COLLATE pg_catalog."C",
    what text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    reason text NOT NULL,
    remedy text NOT NULL,
    since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    until timestamp with time zone NOT NULL,
    CONSTRAINT setbacks_state_check CHECK ((state = ANY (ARRAY['ended'::text, 'retried'::text, 'waits'::text, 'failing'::text])))
);

COMMENT ON TABLE projectionist.setbacks IS 'What each process cannot do, written when that changes; a row goes when it is well again, and is over at `until`.';

COMMENT ON COLUMN projectionist.setbacks.consumer IS 'its name, since it may not be registered; empty where all of the process is meant';

COMMENT ON COLUMN projectionist.setbacks.what IS 'the chore that fails; empty where the consumer itself does not run';

COMMENT ON COLUMN projectionist.setbacks.until IS 'a process that lives has put this off before then';

CREATE TABLE projectionist.settled_batches (
    consumer integer NOT NULL,
    incarnation integer NOT NULL,
    lowest bigint NOT NULL,
    highest bigint NOT NULL,
    seqs bigint[]
)
WITH (toast_tuple_target='8160', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');
ALTER TABLE ONLY projectionist.settled_batches ALTER COLUMN seqs SET STORAGE EXTERNAL;

COMMENT ON TABLE projectionist.settled_batches IS 'A row a batch, written in its transaction, until the floor has passed it. Without an index: it is short, and read whole.';

COMMENT ON COLUMN projectionist.settled_batches.seqs IS 'null: all from the lowest to the highest.';

ALTER TABLE projectionist.staged_intents ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME projectionist.staged_intents_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE projectionist.streams (
    number integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    incarnation integer NOT NULL,
    created timestamp with time zone NOT NULL,
    highest_seq bigint DEFAULT 0 NOT NULL
);

COMMENT ON TABLE projectionist.streams IS 'One row per incarnation of a stream: a new one when a stream proves to be another under the same name.';

COMMENT ON COLUMN projectionist.streams.created IS 'When the broker says the stream was created: one sign by which another incarnation is known.';

ALTER TABLE projectionist.streams ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME projectionist.streams_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE projectionist.views (
    number integer NOT NULL,
    consumer integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    key_name text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    revision integer DEFAULT 1 NOT NULL,
    shape bytea NOT NULL,
    code bytea NOT NULL,
    generation integer DEFAULT 1 NOT NULL,
    own_type text COLLATE pg_catalog."C",
    own_since text,
    effects_incarnation integer,
    effects_mark bigint,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    state text DEFAULT 'live'::text NOT NULL,
    looks_up text[] DEFAULT '{}'::text[] NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT views_effects_check CHECK (((effects_incarnation IS NULL) = (effects_mark IS NULL))),
    CONSTRAINT views_kind_check CHECK ((kind = ANY (ARRAY['projection'::text, 'reactor'::text, 'sql'::text]))),
    CONSTRAINT views_state_check CHECK ((state = ANY (ARRAY['joining'::text, 'live'::text, 'detached'::text, 'retired'::text])))
);

COMMENT ON TABLE projectionist.views IS 'What a consumer feeds: handlers, the generation of their tables, and what intents of theirs are known by.';

COMMENT ON COLUMN projectionist.views.key_name IS 'the name under which the view was first registered; intent keys are made of it, so that a rename keeps them';

COMMENT ON COLUMN projectionist.views.shape IS 'Fingerprint of fields, key, table, options and handled types: a change needs a migration or a rebuild.';

COMMENT ON COLUMN projectionist.views.code IS 'Fingerprint of the handlers: a new one is adopted at start.';

COMMENT ON COLUMN projectionist.views.own_type IS 'the one type of aggregate whose ids are keys of rows: with a second type, two aggregates would share a row';

COMMENT ON COLUMN projectionist.views.own_since IS 'the event that decided own_type, as errors name it';

COMMENT ON COLUMN projectionist.views.effects_mark IS 'Stream sequence from which intents are real; below it they are counted and dropped.';

COMMENT ON COLUMN projectionist.views.state IS 'joining: built before batches write it; live: written by each batch; detached: left out by a person; retired: its class is gone';

COMMENT ON COLUMN projectionist.views.looks_up IS 'the names of the views of its set that its code looks up; empty for code that was taken up before they were on record';

ALTER TABLE projectionist.views ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME projectionist.views_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY projectionist.archive
    ADD CONSTRAINT archive_pkey PRIMARY KEY (number);

ALTER TABLE ONLY projectionist.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (intent, attempt);

ALTER TABLE ONLY projectionist.audit_chain
    ADD CONSTRAINT audit_chain_number_key UNIQUE (number);

ALTER TABLE ONLY projectionist.audit_chain
    ADD CONSTRAINT audit_chain_pkey PRIMARY KEY (place);

ALTER TABLE ONLY projectionist.audit_head
    ADD CONSTRAINT audit_head_pkey PRIMARY KEY (one);

ALTER TABLE ONLY projectionist.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (number);

ALTER TABLE ONLY projectionist.buckets
    ADD CONSTRAINT buckets_pkey PRIMARY KEY (provider, destination);

ALTER TABLE ONLY projectionist.build_excluded
    ADD CONSTRAINT build_excluded_pkey PRIMARY KEY (build, seq);

ALTER TABLE ONLY projectionist.build_positions
    ADD CONSTRAINT build_positions_pkey PRIMARY KEY (build, aggregate);

ALTER TABLE ONLY projectionist.build_progress
    ADD CONSTRAINT build_progress_pkey PRIMARY KEY (build);

ALTER TABLE ONLY projectionist.build_steps
    ADD CONSTRAINT build_steps_pkey PRIMARY KEY (build, n);

ALTER TABLE ONLY projectionist.build_views
    ADD CONSTRAINT build_views_pkey PRIMARY KEY (build, view);

ALTER TABLE ONLY projectionist.builds
    ADD CONSTRAINT builds_pkey PRIMARY KEY (number);

ALTER TABLE ONLY projectionist.cancels
    ADD CONSTRAINT cancels_key_key UNIQUE (key);

ALTER TABLE ONLY projectionist.cancels
    ADD CONSTRAINT cancels_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY projectionist.circuits
    ADD CONSTRAINT circuits_pkey PRIMARY KEY (provider, destination);

ALTER TABLE ONLY projectionist.code_fingerprints
    ADD CONSTRAINT code_fingerprints_pkey PRIMARY KEY (view, code);

ALTER TABLE ONLY projectionist.consumer_breakers
    ADD CONSTRAINT consumer_breakers_pkey PRIMARY KEY (consumer);

ALTER TABLE ONLY projectionist.consumers
    ADD CONSTRAINT consumers_name_key UNIQUE (name);

ALTER TABLE ONLY projectionist.consumers
    ADD CONSTRAINT consumers_pkey PRIMARY KEY (number);

ALTER TABLE ONLY projectionist.counters
    ADD CONSTRAINT counters_pkey PRIMARY KEY (consumer, runner, hour, type, outcome);

ALTER TABLE ONLY projectionist.crash_marks
    ADD CONSTRAINT crash_marks_pkey PRIMARY KEY (consumer, source, id);

ALTER TABLE ONLY projectionist.decisions
    ADD CONSTRAINT decisions_pkey PRIMARY KEY (number);

ALTER TABLE ONLY projectionist.dirty_marks
    ADD CONSTRAINT dirty_marks_pkey PRIMARY KEY (consumer, slot, mark);

ALTER TABLE ONLY projectionist.duplicates
    ADD CONSTRAINT duplicates_pkey PRIMARY KEY (consumer, incarnation, seq);

ALTER TABLE ONLY projectionist.floors
    ADD CONSTRAINT floors_pkey PRIMARY KEY (consumer, durable);

ALTER TABLE ONLY projectionist.generations
    ADD CONSTRAINT generations_pkey PRIMARY KEY (view, generation);

ALTER TABLE ONLY projectionist.inbox
    ADD CONSTRAINT inbox_pkey PRIMARY KEY (consumer, source, id);

ALTER TABLE ONLY projectionist.incidents
    ADD CONSTRAINT incidents_consumer_kind_incarnation_seq_key UNIQUE (consumer, kind, incarnation, seq);

ALTER TABLE ONLY projectionist.incidents
    ADD CONSTRAINT incidents_pkey PRIMARY KEY (number);

ALTER TABLE ONLY projectionist.intents
    ADD CONSTRAINT intents_key_key UNIQUE (key);

ALTER TABLE ONLY projectionist.intents
    ADD CONSTRAINT intents_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY projectionist.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (name);

ALTER TABLE ONLY projectionist.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (number);

ALTER TABLE ONLY projectionist.minute_counts
    ADD CONSTRAINT minute_counts_pkey PRIMARY KEY (consumer, place, runner);

ALTER TABLE ONLY projectionist.names
    ADD CONSTRAINT names_pkey PRIMARY KEY (view, kind, name);

ALTER TABLE ONLY projectionist.operation_items
    ADD CONSTRAINT operation_items_pkey PRIMARY KEY (operation, place);

ALTER TABLE ONLY projectionist.operation_samples
    ADD CONSTRAINT operation_samples_pkey PRIMARY KEY (operation, alike, sample);

ALTER TABLE ONLY projectionist.operations
    ADD CONSTRAINT operations_pkey PRIMARY KEY (number);

ALTER TABLE ONLY projectionist.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY projectionist.own_names
    ADD CONSTRAINT own_names_pkey PRIMARY KEY (name);

ALTER TABLE ONLY projectionist.owner
    ADD CONSTRAINT owner_pkey PRIMARY KEY (one);

ALTER TABLE ONLY projectionist.parked
    ADD CONSTRAINT parked_pkey PRIMARY KEY (consumer, source, id);

ALTER TABLE ONLY projectionist.positions
    ADD CONSTRAINT positions_pkey PRIMARY KEY (consumer, aggregate);

ALTER TABLE ONLY projectionist.quarantine
    ADD CONSTRAINT quarantine_pkey PRIMARY KEY (consumer, incarnation, seq);

ALTER TABLE ONLY projectionist.recorded_aggregates
    ADD CONSTRAINT recorded_aggregates_pkey PRIMARY KEY (stream, aggregate);

ALTER TABLE ONLY projectionist.relay_owner
    ADD CONSTRAINT relay_owner_pkey PRIMARY KEY (one);

ALTER TABLE ONLY projectionist.relays
    ADD CONSTRAINT relays_pkey PRIMARY KEY (instance);

ALTER TABLE ONLY projectionist.retired_consumers
    ADD CONSTRAINT retired_consumers_pkey PRIMARY KEY (name);

ALTER TABLE ONLY projectionist.roles
    ADD CONSTRAINT roles_pkey PRIMARY KEY (duty, role);

ALTER TABLE ONLY projectionist.runners
    ADD CONSTRAINT runners_pkey PRIMARY KEY (number);

ALTER TABLE ONLY projectionist.schedule
    ADD CONSTRAINT schedule_pkey PRIMARY KEY (intent);

ALTER TABLE ONLY projectionist.setbacks
    ADD CONSTRAINT setbacks_pkey PRIMARY KEY (instance, consumer, what);

ALTER TABLE ONLY projectionist.staged_intents
    ADD CONSTRAINT staged_intents_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY projectionist.streams
    ADD CONSTRAINT streams_name_incarnation_key UNIQUE (name, incarnation);

ALTER TABLE ONLY projectionist.streams
    ADD CONSTRAINT streams_pkey PRIMARY KEY (number);

ALTER TABLE ONLY projectionist.views
    ADD CONSTRAINT views_key_name_key UNIQUE (key_name);

ALTER TABLE ONLY projectionist.views
    ADD CONSTRAINT views_name_key UNIQUE (name);

ALTER TABLE ONLY projectionist.views
    ADD CONSTRAINT views_pkey PRIMARY KEY (number);

CREATE INDEX archive_aggregate ON projectionist.archive USING btree (((content ->> 'aggregate'::text))) WHERE (kind = 'inbox'::text);

CREATE INDEX archive_event ON projectionist.archive USING btree (((content ->> 'id'::text))) WHERE (kind = ANY (ARRAY['inbox'::text, 'intents'::text]));

CREATE INDEX archive_intent ON projectionist.archive USING btree (((content ->> 'key'::text))) WHERE (kind = 'intents'::text);

CREATE INDEX archive_intent_aggregate ON projectionist.archive USING btree (((content ->> 'aggregate'::text))) WHERE (kind = 'intents'::text);

CREATE INDEX audit_at_idx ON projectionist.audit USING btree (at);

CREATE INDEX audit_object_idx ON projectionist.audit USING btree (object, number);

CREATE UNIQUE INDEX builds_open ON projectionist.builds USING btree (consumer) WHERE (ended IS NULL);

CREATE INDEX cancels_event ON projectionist.cancels USING btree (consumer, source, id);

CREATE INDEX cancels_open ON projectionist.cancels USING btree (seq) WHERE (done IS NULL);

CREATE INDEX decisions_aggregate ON projectionist.decisions USING btree (consumer, aggregate, version);

CREATE INDEX decisions_seq ON projectionist.decisions USING btree (consumer, incarnation, seq) WHERE (seq IS NOT NULL);

CREATE INDEX duplicates_identity ON projectionist.duplicates USING btree (consumer, source, id);

CREATE UNIQUE INDEX generations_live ON projectionist.generations USING btree (view) WHERE (state = 'live'::text);

CREATE INDEX held_counts_consumer ON projectionist.held_counts USING btree (consumer);

CREATE INDEX inbox_held ON projectionist.inbox USING btree (consumer, received) WHERE (state = ANY (ARRAY['parked'::text, 'quarantined'::text]));

CREATE INDEX inbox_version ON projectionist.inbox USING btree (consumer, aggregate, version);

CREATE INDEX incidents_open ON projectionist.incidents USING btree (consumer) WHERE (closed IS NULL);

CREATE INDEX intents_event ON projectionist.intents USING btree (consumer, source, id);

CREATE INDEX operation_items_not_done ON projectionist.operation_items USING btree (operation, place) WHERE (state = ANY (ARRAY['failed'::text, 'refused'::text]));

CREATE INDEX operation_items_tried ON projectionist.operation_items USING btree (operation, place) WHERE (state = 'tried'::text);

CREATE INDEX operation_samples_open ON projectionist.operation_samples USING btree (operation, alike, sample) WHERE open;

CREATE INDEX operations_open ON projectionist.operations USING btree (number) WHERE (ended IS NULL);

CREATE INDEX outbox_lane ON projectionist.outbox USING btree (provider, lane, place) WHERE open;

CREATE INDEX parked_alike ON projectionist.parked USING btree (consumer, cause, type, alike, incarnation, seq);

CREATE INDEX parked_counts_consumer ON projectionist.parked_counts USING btree (consumer);

CREATE INDEX parked_due ON projectionist.parked USING btree (consumer, due) WHERE (due IS NOT NULL);

CREATE UNIQUE INDEX parked_version ON projectionist.parked USING btree (consumer, aggregate, version) WHERE ordered;

CREATE INDEX positions_due ON projectionist.positions USING btree (consumer, due) WHERE (due IS NOT NULL);

CREATE INDEX positions_held ON projectionist.positions USING btree (consumer, head) WHERE (head <> 'clear'::text);

CREATE INDEX positions_owned ON projectionist.positions USING btree (consumer, owner) WHERE (owner IS NOT NULL);

CREATE INDEX quarantine_due ON projectionist.quarantine USING btree (consumer, due) WHERE (due IS NOT NULL);

CREATE INDEX quarantine_held ON projectionist.quarantine USING btree (consumer) WHERE (state = 'quarantined'::text);

CREATE INDEX runners_consumer ON projectionist.runners USING btree (consumer) WHERE (stopped IS NULL);

CREATE INDEX schedule_aggregate ON projectionist.schedule USING btree (consumer, aggregate);

CREATE INDEX schedule_look ON projectionist.schedule USING btree (consumer, guard, look) WHERE (look IS NOT NULL);

CREATE INDEX views_consumer ON projectionist.views USING btree (consumer);

CREATE CONSTRAINT TRIGGER chain_act AFTER INSERT ON projectionist.audit DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION projectionist.chain_act();

CREATE TRIGGER guard_purge_act BEFORE INSERT ON projectionist.audit FOR EACH ROW WHEN ((new.action = 'purge-audit'::text)) EXECUTE FUNCTION projectionist.guard_purge_act();

CREATE TRIGGER keep_acts BEFORE DELETE OR UPDATE ON projectionist.audit FOR EACH ROW EXECUTE FUNCTION projectionist.keep_acts();

CREATE TRIGGER keep_acts BEFORE DELETE OR UPDATE ON projectionist.audit_chain FOR EACH ROW EXECUTE FUNCTION projectionist.keep_acts();

CREATE TRIGGER keep_acts BEFORE DELETE OR UPDATE ON projectionist.audit_head FOR EACH ROW EXECUTE FUNCTION projectionist.keep_acts();

CREATE TRIGGER keep_all_acts BEFORE TRUNCATE ON projectionist.audit FOR EACH STATEMENT EXECUTE FUNCTION projectionist.keep_acts();

CREATE TRIGGER keep_all_acts BEFORE TRUNCATE ON projectionist.audit_chain FOR EACH STATEMENT EXECUTE FUNCTION projectionist.keep_acts();

CREATE TRIGGER keep_all_acts BEFORE TRUNCATE ON projectionist.audit_head FOR EACH STATEMENT EXECUTE FUNCTION projectionist.keep_acts();

CREATE TRIGGER number_act BEFORE INSERT ON projectionist.audit FOR EACH ROW EXECUTE FUNCTION projectionist.number_act();

CREATE TRIGGER witness_act BEFORE INSERT ON projectionist.audit FOR EACH ROW EXECUTE FUNCTION projectionist.witness_act();

ALTER TABLE ONLY projectionist.operation_items
    ADD CONSTRAINT operation_items_operation_fkey FOREIGN KEY (operation) REFERENCES projectionist.operations(number) ON DELETE CASCADE;

ALTER TABLE ONLY projectionist.operation_samples
    ADD CONSTRAINT operation_samples_operation_fkey FOREIGN KEY (operation) REFERENCES projectionist.operations(number) ON DELETE CASCADE;
