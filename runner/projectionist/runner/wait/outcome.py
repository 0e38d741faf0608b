"""Defines what is waited for, and what its row means. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.digest import stand_in
from projectionist.core.states import AggregateState, InboxState

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Row


class WaitOutcome(StrEnum):
    """The end of a wait."""

    APPLIED = "applied"
    IGNORED = "ignored"
    """No handler declares its type: the consumer has stepped over it."""
    STALE = "stale"
    SKIPPED = "skipped"
    """A person has decided to step over it, or to erase it."""
    DISCARDED = "discarded"
    PARKED = "parked"
    """It waits behind something that failed or is missing, and the reason says what."""
    QUARANTINED = "quarantined"
    NOT_MEANT = "not_meant"
    """It is on no subject that the consumer reads."""
    FORGOTTEN = "forgotten"
    """It was settled, so long ago that retention has removed how."""
    NOT_SERVED = "not_served"
    """No process applies events for the consumer now: it is paused, its breaker is open, or none runs it."""
    PENDING = "pending"
    """Nothing of the above within the time given."""


class WaitResult(msgspec.Struct, frozen=True):
    """The end of a wait, and why where that is not plain; no content is in it, since callers show it to anybody."""

    outcome: WaitOutcome
    reason: str = ""

    @property
    def is_applied(self) -> bool:
        """Return whether a read of the model now shows it, or never will have to."""
        return self.outcome in (WaitOutcome.APPLIED, WaitOutcome.IGNORED)

    def __str__(self) -> str:
        return f"{self.outcome}, because {self.reason}" if self.reason else str(self.outcome)


class AwaitedEvent(msgspec.Struct, frozen=True):
    """One event, as far as it is known."""

    consumer: int
    aggregate: str | None = None
    version: int | None = None
    source: str | None = None
    id: str | None = None
    incarnation: int | None = None
    seq: int | None = None
    hashes: tuple[bytes, ...] = ()
    """What its content is known by; without any, whatever bears its identity is taken for it."""

    @property
    def hash(self) -> bytes | None:
        """Return the hash of its content as it is."""
        return self.hashes[0] if self.hashes else None

    @property
    def canonical(self) -> bytes | None:
        """Return the hash of its content in canonical form."""
        return self.hashes[-1] if self.hashes else None


_SETTLED = {
    InboxState.APPLIED: WaitOutcome.APPLIED,
    InboxState.IGNORED: WaitOutcome.IGNORED,
    InboxState.STALE: WaitOutcome.STALE,
    InboxState.SKIPPED: WaitOutcome.SKIPPED,
    InboxState.DISCARDED: WaitOutcome.DISCARDED,
    InboxState.ERASED: WaitOutcome.SKIPPED,
    InboxState.QUARANTINED: WaitOutcome.QUARANTINED,
}


def answer(row: Row) -> WaitResult | None:
    """Return what this row says; None if it is to be waited for."""
    if row["aside"] is not None:
        return WaitResult(WaitOutcome.QUARANTINED, stand_in(row["detail"], row["aside"]))
    if row["state"] in _SETTLED:
        return WaitResult(_SETTLED[InboxState(row["state"])])
    passed = row["wanted"] is not None and (row["version"] or 0) >= row["wanted"]
    if passed and row["stepped_over"]:
        return WaitResult(WaitOutcome.SKIPPED)
    if passed and not row["named"]:
        return WaitResult(WaitOutcome.APPLIED)
    if (not passed and row["head"] in (AggregateState.FAILED, AggregateState.WAITING)) or row[
        "alone"
    ] == "failed":
        return WaitResult(WaitOutcome.PARKED, _why(row))
    return (
        WaitResult(WaitOutcome.FORGOTTEN, "retention has removed its inbox row") if row["forgotten"] else None
    )


def describe_progress(row: Row | None) -> str:
    """Say how far it is, for a caller that has waited in vain."""
    if row is None:
        return "nothing is known of it"
    if row["state"] == InboxState.PARKED:
        return f"it is parked, the head of its aggregate is {row['head'] or 'tried soon'}"
    if row["rival"] is not None:
        return f"its version {row['wanted']} is that of another event, {row['rival_source']} {row['rival']}"
    if row["taken"]:
        return "its identity is that of another event, which has come before it"
    if row["version"] is None:
        return "the consumer has seen nothing of it yet"
    return f"the consumer is at version {row['version']}, the head is {row['head']}"


def _why(row: Row) -> str:
    if row["finding"] is not None:
        return f"a version after {row['version']} is missing ({row['finding']}): publish it again, or accept the gap"
    which = "it" if row["held_at"] in (None, row["wanted"]) else f"version {row['held_at']}"
    then = "it is tried again" if row["again"] else "it waits for new code or a person"
    return f"{which} failed ({stand_in(row['error'] or '', row['error_class'] or '')}); {then}"
