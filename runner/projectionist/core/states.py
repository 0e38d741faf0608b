"""The states of the tables: one home for their names. A test compares each with the CHECK of its column."""

from __future__ import annotations

from enum import StrEnum


class InboxState(StrEnum):
    """Where one event stands in a consumer's inbox."""

    APPLIED = "applied"
    IGNORED = "ignored"
    STALE = "stale"
    PARKED = "parked"
    QUARANTINED = "quarantined"
    SKIPPED = "skipped"
    DISCARDED = "discarded"
    ERASED = "erased"
    """Its content is gone: removed by somebody, or encrypted under a key that is no more."""


class AggregateState(StrEnum):
    """What stands at the head of an aggregate: nothing, or what its next step waits for."""

    CLEAR = "clear"
    GAP = "gap"
    FAILED = "failed"
    WAITING = "waiting"
    DRAINING = "draining"


class Finding(StrEnum):
    """Why missing versions cannot be had. All but IN_FLIGHT are written down, and wait for somebody."""

    IN_FLIGHT = "in_flight"
    """They may still be delivered."""
    PURGED = "purged"
    """The stream has dropped messages that may have been them."""
    FILTERED = "filtered"
    """The consumer's subjects do not lead to them."""
    LOST = "lost"
    """Nothing of the above: the stream does not hold them."""
    IMPLAUSIBLE = "implausible"
    """More are missing than the stream has ever held."""


class Cause(StrEnum):
    """Why an event is parked."""

    GAP = "gap"
    FAILED = "failed"
    BLOCKED = "blocked"
    STORED = "stored"


class DecisionKind(StrEnum):
    """The kinds of recorded acts that rebuild and verify repeat."""

    SKIP = "skip"
    DISCARD = "discard"
    EDIT = "edit"
    ACCEPT_GAP = "accept_gap"
    WINNER = "winner"
    BASELINE = "baseline"
    ERASE = "erase"


class IncidentKind(StrEnum):
    """The kinds of incidents: facts that must not be explained away."""

    IDENTITY_REUSE = "identity_reuse"
    VERSION_REUSE = "version_reuse"
    INTENT_REUSE = "intent_reuse"
    INTENT_MISMATCH = "intent_mismatch"
    LATE = "late"
    FAULT = "fault"
    PURGED = "purged"
    FILTERED = "filtered"
    LOST = "lost"
    IMPLAUSIBLE = "implausible"
    STREAM_REPLACED = "stream_replaced"
    STREAM_REGRESSED = "stream_regressed"
    STREAM_COPIED = "stream_copied"
    STREAM_PURGED = "stream_purged"
    DATABASE_COPIED = "database_copied"
    DURABLE_TAKEN = "durable_taken"
    ACKED_ELSEWHERE = "acked_elsewhere"


class IntentState(StrEnum):
    """Where an intent stands on its way to the provider."""

    SCHEDULED = "scheduled"
    """It waits for its time, in no lane."""
    READY = "ready"
    LEASED = "leased"
    STARTED = "started"
    UNKNOWN = "unknown"
    SENT = "sent"
    RECONCILE = "reconcile"
    DEAD = "dead"
    HELD = "held"
    DISCARDED = "discarded"
    CANCELLED = "cancelled"
    """A later event has taken it back before it began."""


class OperationOutcome(StrEnum):
    """How an operation ended."""

    DONE = "done"
    """It came to each of its items."""
    NONE_GOT_THROUGH = "none_got_through"
    """Of a sample: the rest was left alone."""
    UNTRIED = "untried"
    """Nobody tried what it had made due."""
    STOPPED = "stopped"
    FAILED = "failed"
    """A long act: an error ended it."""


class ItemState(StrEnum):
    """What an operation has done about one of its items."""

    WAITING = "waiting"
    TRIED = "tried"
    """It is to be tried at once; what comes of it is not known yet."""
    DONE = "done"
    FAILED = "failed"
    """It was tried, and failed again."""
    REFUSED = "refused"
    """It had moved meanwhile, or nothing could be done about it."""
