"""The states of the tables: one home for their names. A test compares each with the CHECK of its column."""

from __future__ import annotations

from enum import StrEnum


class Entry(StrEnum):
    """Where one event stands in a consumer's inbox."""

    APPLIED = "applied"
    IGNORED = "ignored"
    STALE = "stale"
    PARKED = "parked"
    QUARANTINED = "quarantined"
    SKIPPED = "skipped"
    DISCARDED = "discarded"


class Head(StrEnum):
    """What stands at the head of an aggregate: nothing, or what its next step waits for."""

    CLEAR = "clear"
    GAP = "gap"
    FAILED = "failed"
    WAITING = "waiting"
    DRAINING = "draining"


class Cause(StrEnum):
    """Why an event is parked."""

    GAP = "gap"
    FAILED = "failed"
    BLOCKED = "blocked"
    STORED = "stored"


class Decided(StrEnum):
    """The kinds of recorded acts that rebuild and verify repeat."""

    SKIP = "skip"
    DISCARD = "discard"
    EDIT = "edit"
    ACCEPT_GAP = "accept_gap"
    WINNER = "winner"
    BASELINE = "baseline"


class Fact(StrEnum):
    """The kinds of incidents: facts that must not be explained away."""

    IDENTITY_REUSE = "identity_reuse"
    VERSION_REUSE = "version_reuse"
    INTENT_REUSE = "intent_reuse"
    INTENT_MISMATCH = "intent_mismatch"
    LATE = "late"
    STREAM_REPLACED = "stream_replaced"
    STREAM_REGRESSED = "stream_regressed"
    STREAM_COPIED = "stream_copied"
    STREAM_PURGED = "stream_purged"


class Effect(StrEnum):
    """Where an intent stands on its way to the provider."""

    READY = "ready"
    LEASED = "leased"
    STARTED = "started"
    UNKNOWN = "unknown"
    SENT = "sent"
    RECONCILE = "reconcile"
    DEAD = "dead"
    HELD = "held"
    DISCARDED = "discarded"
