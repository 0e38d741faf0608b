"""Judges an arriving version against an aggregate's position. Integers only.

The head is asked before the arithmetic: behind a failed or waiting head no version is next.
Identities are settled before (a known one is a duplicate and never judged), so each judged event is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from projectionist.core.states import AggregateState
from projectionist.projections.compiled.class_options import Baseline, Sequencing


class Verdict(StrEnum):
    """The verdict on an arriving version."""

    NEXT = "next"
    """To be applied now."""
    STALE = "stale"
    """At or below the position; `judge_stale` tells harmless ones from incidents."""
    GAP = "gap"
    """Past a version that is missing: to be parked."""
    BLOCKED = "blocked"
    """Behind a head that failed, waits or drains: to be parked."""
    REUSED = "reused"
    """A version that another identity has: an incident, never applied."""
    LATE = "late"
    """A version that a decision stepped over: an incident, stays stepped over."""


class Position(msgspec.Struct, frozen=True, gc=False):
    """One aggregate's position for one consumer, as far as verdicts depend on it."""

    version: int = 0
    """The last version that was applied or stepped over."""
    head: AggregateState = AggregateState.CLEAR
    finding: str | None = None
    """The reason where it is WAITING for versions that cannot be had. It moves like a GAP when they come."""
    parked: int = 0
    """The number of events behind the head, the failed one included."""

    @property
    def open(self) -> bool:
        """Return True where an arriving version p+1 moves the head."""
        return self.head in _OPEN or (self.head == AggregateState.WAITING and self.finding is not None)


_OPEN = frozenset({AggregateState.CLEAR, AggregateState.GAP})


def start(baseline: Baseline) -> int:
    """Return the version an aggregate's position starts at; versions up to it are STALE, as if they had been applied.

    With "any" too it is zero: a first arrival above 1 is a gap, and the lowest version in the stream decides.
    """
    return baseline - 1 if isinstance(baseline, int) else 0


def follows(version: int, last: int, sequence: Sequencing) -> bool:
    """Return True where `version` may be applied right after `last`."""
    return version == last + 1 if sequence == "contiguous" else version > last


def judge(position: Position, version: int, sequence: Sequencing = "contiguous") -> Verdict:
    """Return the verdict on a new identity with `version`. STALE is a candidate for `judge_stale`."""
    if sequence == "unordered":
        return Verdict.NEXT
    if version <= position.version:
        return Verdict.STALE
    if position.open:
        return Verdict.NEXT if follows(version, position.version, sequence) else Verdict.GAP
    if sequence == "contiguous" and version == position.version + 1:
        return Verdict.REUSED  # behind such a head the next version is parked already, under another identity
    return Verdict.BLOCKED


def judge_stale(version: int, *, taken: bool, stepped_over: Sequence[tuple[int, int]]) -> Verdict:
    """Judge a STALE candidate: `taken` if another identity was settled under its version.

    `stepped_over` are the inclusive ranges that decisions passed without applying; where "any" has begun is one.
    """
    if taken:
        return Verdict.REUSED
    if any(first <= version <= last for first, last in stepped_over):
        return Verdict.LATE
    return Verdict.STALE
