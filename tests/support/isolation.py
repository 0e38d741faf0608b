"""Which statements may wait for each other, what the second of two sessions then sees, and which wait for nobody."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
RUNNER, OUTBOX = "projectionist.runner", "projectionist.outbox"

GIVEN = """
    insert into {s}.consumers (number, name, stream) overriding system value values ({c}, 'C{c}', 'SHOP');
    insert into {s}.positions (consumer, aggregate, version, head, due) values
        ({c}, 'order/1', 3, 'failed', now() - interval '1 minute'),
        ({c}, 'order/2', 0, 'gap', now() - interval '1 minute');
    insert into {s}.parked (
        consumer, source, id, cause, aggregate, version, ordered, incarnation, seq, subject, type, event_schema, hash,
        data, code, last_failed, due
    ) values
        ({c}, 'shop', 'p1', 'failed', 'order/1', 4, true, 1, 4, 's', 't', 1, '', '', '', now(), null),
        ({c}, 'shop', 'u1', 'failed', null, null, false, 1, 5, 's', 't', 1, '', '', '', now(),
            now() - interval '1 minute'),
        ({c}, 'shop', 'u2', 'failed', null, null, false, 1, 7, 's', 't', 1, '', '', '', now(), null);
    insert into {s}.inbox (
        consumer, source, id, state, incarnation, seq, subject, type, event_schema, aggregate, version, hash, batch,
        received
    ) values ({c}, 'shop', 'p1', 'applied', 1, 4, 's', 't', 1, 'order/9', 1, '', 1, now());
    insert into {s}.quarantine (consumer, incarnation, seq, reason, detail, subject, size, hash, due)
    values ({c}, 1, 6, 'type', '', 's', 0, '', now() + interval '1 hour');
    insert into {s}.consumer_breakers (consumer, state, epoch, failures, openings, until, reason)
    values ({c}, 'closed', 1, 0, 0, now(), '');
    insert into {s}.builds (number, consumer, kind, phase, epoch, owner, incarnation) overriding system value
    values ({c}, {c}, 'rebuild', 'bulk', 1, 'me', 1);
    insert into {s}.operations (number, kind, chosen, who, reason, rate, patience_s) overriding system value
    values ({c}, 'retry_parked', '{{}}', 'ann', 'r', 9, 0);
    insert into {s}.generations (view, generation, state, tables, shape, code) values ({c}, 1, 'kept', '[]', '', '');
    insert into {s}.floors (consumer, durable, incarnation) values ({c}, 'd', 1);
    insert into {s}.circuits (provider, destination, changed) values ('p{c}', 'd', now() - interval '1 day');
    insert into {s}.buckets (provider, destination, tokens, granted, refilled)
    values ('p{c}', 'd', 9, 0, now() - interval '1 day');
    with made as (
        insert into {s}.intents (
            key, consumer, source, id, slot, class, provider, destination, on_dead, body, hash, scheduled
        ) values
            ('key{c}', {c}, 'shop', 'id', 's', 'c', 'p{c}', 'd', 'pass', '', '', null),
            ('later{c}', {c}, 'shop', 'id2', 's', 'c', 'later{c}', 'd', 'pass', '', '', now())
        returning seq, key, scheduled
    ),
    now as (
        insert into {s}.outbox (seq, provider, destination, lane, place, first_started)
        select seq, 'p{c}', 'd', key, seq, now() from made where scheduled is null
    )
    insert into {s}.schedule (intent, consumer, class, slot, due, expires, guard, look)
    select seq, {c}, 'c', 's', now() - interval '1 minute', now() - interval '1 second', 'clock', now()
    from made where scheduled is not null;
"""
"""Rows of one consumer {c}, of its providers, and of its view, each of which has its number."""


class Call(NamedTuple):
    """A statement with what it is given; {c} in a text is the consumer's number, and so is C."""

    statement: str
    given: tuple[Any, ...] = ()
    package: str = RUNNER

    def __str__(self) -> str:
        return self.statement


class Pair(NamedTuple):
    """Two statements on the same rows: whether the second waits for the first, and what it does once that has ended.

    What it does is the tag of its command: how many rows it has locked, seen or changed.
    """

    first: Call
    second: Call
    waits: bool
    committed: str
    rolled_back: str = ""
    """Where that is something else."""

    def __str__(self) -> str:
        return f"{self.first}-then-{self.second}"


class C:
    """Stands for the number of the consumer."""


SCHEDULED = "select intent from {s}.schedule where consumer = {c}"


class Asked(NamedTuple):
    """What a statement is given is asked of the database first."""

    query: str


_ONE = ["shop"]
_BARRIER = (C,)
_MS = 10.0
CLAIM = Call(
    "insert_inbox_claims",
    (
        C,
        1,
        1,
        "shop",
        "applied",
        1,
        [],
        [],
        [],
        "new",
        [7],
        "s",
        "t",
        "order/1",
        [4],
        *("c" * 4),
        [b""],
        [0],
        [],
    ),
)
PLACE = Call("insert_missing_positions", (C, ["order/new"], 0))
POSITIONS = Call("lock_positions", (C, ["order/1", "order/2"]))
NEW_POSITION = Call("lock_positions", (C, ["order/new"]))
CLAIM_DUE = Call("claim_due_aggregates", (C, 1, 10))
GAPS = Call("lock_due_gaps", (C, 10))
BASELINE = Call("lock_aggregates_without_baseline", (C, ["order/2"]))
NEW_CODE = Call("schedule_failed_heads_on_new_code", (C, b"\x01", 10))
NEW_CODE_EVENTS = Call("schedule_failed_events_on_new_code", (C, b"\x01", 10))
PARKED = Call("lock_parked_event", (C, "shop", "p1"))
PARKED_ALONE = Call("lock_parked_event", (C, "shop", "u1"))
PARKED_FOR_CODE = Call("lock_parked_event", (C, "shop", "u2"))
PARKED_OF = Call("select_parked_identities", (C, "order/1", None, None))
SETTLED = Call("delete_parked_events", (C, "shop", ["p1"]))
UNORDERED = Call("lock_due_unordered_events", (C, _ONE, ["u1"]))
ERASED = Call("select_erased_identities", (C, "order/9", "shop", "p1", None, 10))
QUARANTINED = Call("lock_quarantined_event", (C, 1, 6))
RELEASED = Call("lock_released_quarantine", (C, 1, [6]))
REREAD = Call("schedule_reread_on_new_code", (C, b"\x01", 10))
SHARED = Call("lock_consumer_shared", _BARRIER)
EXCLUSIVE = Call("lock_consumer_exclusive", _BARRIER)
PURGE_BARRIER = Call("lock_consumers_shared", ([C],))
PURGE = Call("lock_purge_step", _BARRIER)
BREAKER = Call("lock_consumer_breaker", (C,))
BUILD = Call("lock_build", (C, 1))
TAKE_BUILD = Call("take_over_build", (C, 2, "you", False))
KEPT = Call("select_kept_generation", (C, 1))
CHECKPOINT = Call("lock_checkpoint", (C, "d"))
TAKEOVER = Call("increment_epoch", (C,))
TOLD = Call("open_or_reopen_incident", (C, "stream_replaced", 1, 9, "another one", 1))
STOP = Call("ask_operation_to_stop", (C, "ann", "enough", 1.0, "nobody carried it out"))
CIRCUITS = Call("lock_circuits", ("p{c}", ["d"]), OUTBOX)
FORGET_CIRCUITS = Call("forget_circuits", (["p{c}"], 1.0, 10), OUTBOX)
FORGET_BUCKETS = Call("forget_buckets", ("p{c}", 1.0, 10, 1.0, 9.0), OUTBOX)
INTENTS = Call("lock_intents", (["key{c}"],), OUTBOX)
LATER = Call("lock_intents", (["later{c}"],), OUTBOX)
LEASE = Call("lease_intents", ("p{c}", "", 10, 10, None, 30.0, [], [], 10, True), OUTBOX)
BACK = Call("bring_times_back", ("p{c}", 60.0, 60.0, 1.0), OUTBOX)
PROMOTE = Call("promote_intents", (Asked(SCHEDULED), 0, [], 1.0), OUTBOX)
EXPIRE = Call("expire_intents", (Asked(SCHEDULED),), OUTBOX)
UNPACK = Call("unpack_intent_batches", (10, C), OUTBOX)
MIGRATE = Call("lock_migrations", (C,), "projectionist.migrations")

PAIRS = (
    # One identity: who claims second knows, once the first has ended, whether it is claimed.
    Pair(CLAIM, CLAIM, True, "INSERT 0 0", "INSERT 0 1"),
    # What is not there cannot be locked; so it is made first, by one of two.
    Pair(PLACE, NEW_POSITION, False, "SELECT 0"),
    Pair(PLACE, PLACE, True, "INSERT 0 0", "INSERT 0 1"),
    # Positions: batches and acts wait for each other; who looks for work passes over what others hold.
    Pair(POSITIONS, POSITIONS, True, "SELECT 2"),
    Pair(POSITIONS, NEW_CODE, True, "SELECT 1"),
    Pair(NEW_CODE, POSITIONS, True, "SELECT 2"),
    Pair(POSITIONS, CLAIM_DUE, False, "UPDATE 0"),
    Pair(CLAIM_DUE, POSITIONS, True, "SELECT 2"),
    Pair(CLAIM_DUE, CLAIM_DUE, False, "UPDATE 0"),
    Pair(POSITIONS, GAPS, False, "SELECT 0"),
    Pair(GAPS, POSITIONS, True, "SELECT 2"),
    Pair(GAPS, GAPS, False, "SELECT 0"),
    Pair(POSITIONS, BASELINE, False, "SELECT 0"),
    # Parked events, with and without an order.
    Pair(PARKED, PARKED, True, "SELECT 1"),
    Pair(PARKED, SETTLED, True, "INSERT 0 1"),
    Pair(SETTLED, PARKED, True, "SELECT 0", "SELECT 1"),
    Pair(PARKED, PARKED_OF, True, "SELECT 1"),
    Pair(PARKED_ALONE, UNORDERED, True, "SELECT 1"),
    Pair(UNORDERED, UNORDERED, True, "SELECT 1"),
    Pair(UNORDERED, NEW_CODE_EVENTS, False, "SELECT 1"),
    Pair(PARKED_FOR_CODE, NEW_CODE_EVENTS, True, "SELECT 1"),
    Pair(ERASED, ERASED, True, "SELECT 1"),
    # Quarantine.
    Pair(QUARANTINED, QUARANTINED, True, "SELECT 1"),
    Pair(QUARANTINED, RELEASED, True, "SELECT 1"),
    Pair(QUARANTINED, REREAD, False, "UPDATE 0"),
    # The barrier: batches beside each other, a taker alone.
    Pair(SHARED, SHARED, False, "SELECT 1"),
    Pair(SHARED, EXCLUSIVE, True, "SELECT 1"),
    Pair(EXCLUSIVE, SHARED, True, "SELECT 1"),
    Pair(EXCLUSIVE, EXCLUSIVE, True, "SELECT 1"),
    Pair(EXCLUSIVE, PURGE_BARRIER, True, "SELECT 1"),
    Pair(PURGE_BARRIER, EXCLUSIVE, True, "SELECT 1"),
    Pair(PURGE, PURGE, True, "SELECT 1"),
    Pair(MIGRATE, MIGRATE, True, "SELECT 1"),
    Pair(BREAKER, BREAKER, True, "SELECT 1"),
    # A build: who has lost it sees that, though it asked while it was being taken over.
    Pair(BUILD, BUILD, True, "SELECT 1"),
    Pair(TAKE_BUILD, BUILD, True, "SELECT 0", "SELECT 1"),
    Pair(BUILD, TAKE_BUILD, True, "UPDATE 1"),
    Pair(KEPT, KEPT, True, "SELECT 1"),
    Pair(CHECKPOINT, CHECKPOINT, True, "SELECT 1"),
    # What was judged before somebody has decided opens no incident after it.
    Pair(TAKEOVER, TOLD, True, "INSERT 0 0", "INSERT 0 1"),
    # An operation that nobody carries out ends with the first who stops it.
    Pair(STOP, STOP, True, "UPDATE 0", "UPDATE 1"),
    # The outbox: relays pass over what others hold, acts wait for it.
    Pair(CIRCUITS, CIRCUITS, True, "SELECT 1"),
    Pair(CIRCUITS, FORGET_CIRCUITS, False, "DELETE 0"),
    Pair(FORGET_BUCKETS, FORGET_BUCKETS, False, "DELETE 0"),
    Pair(INTENTS, INTENTS, True, "SELECT 1"),
    Pair(LEASE, INTENTS, True, "SELECT 1"),
    Pair(INTENTS, LEASE, False, "SELECT 1"),
    Pair(LEASE, LEASE, False, "SELECT 1"),
    Pair(LEASE, BACK, True, "UPDATE 1"),
    Pair(PROMOTE, PROMOTE, False, "SELECT 1"),
    # One statement is one snapshot: the row that has just entered the outbox is for the next look.
    Pair(PROMOTE, LATER, True, "SELECT 0"),
    Pair(LATER, EXPIRE, False, "SELECT 1"),
    Pair(UNPACK, UNPACK, True, "SELECT 1"),
)

UNPAIRED = {
    "0010_audit_chain": "a migration; its trigger locks the head of the chain in one row for each act",
    "apply_cancels": "skips what others hold: its order with promote is in integration/relay/test_schedule",
    "bring_heartbeats_back": "skips what others hold, and is alone in its transaction",
    "keep_consumer_lock": "the barrier again, by whoever holds it",
    "release_consumer_lock": "waits for nobody",
    "lock_view": "makes a statement, and locks nothing by itself",
    "select_archived": "erase alone, one at a time under its own act",
    "shorten_future_dues": "skips what others hold, and is alone in its transaction",
    "try_lock_index_creation": "tries, and waits for nobody",
    "unlock_index_creation": "waits for nobody",
    "try_lock_counts": "tries, and waits for nobody",
    "lock_probe": "on a number that nobody else uses; what a second session is told is in core/test_lock_probe",
    "try_lock_probe": "tries, and waits for nobody",
    "select_older_snapshots": "looks at locks, and takes none",
    "select_lock_strangers": "looks at locks, and takes none",
}
"""Statements that lock, or name locks, and are in no pair; and why."""


def locking_statements() -> set[str]:
    """Return the names of all statements that lock rows or take advisory locks; the twins of benchmarks are none."""
    words = re.compile(r"for (no key )?update|for (key )?share|advisory|lock table", re.IGNORECASE)
    parts = ("runner", "outbox", "migrations", "ops/projectionist/ops")
    files = (file for part in parts for file in (ROOT / part).rglob("sql/*.sql"))
    return {file.stem for file in files if words.search(file.read_text("utf-8"))}
