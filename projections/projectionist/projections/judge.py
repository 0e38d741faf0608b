"""Judge: where an arriving version stands against an aggregate's position. Integers only.

The head is asked before the arithmetic: behind a failed or waiting head nothing is next, whatever its number.
Identities are settled before (a known one is a duplicate and never judged), so whoever arrives here is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from projectionist.core.states import Head
from projectionist.projections.definition import Baseline, Sequencing


class Verdict(StrEnum):
    """What an arriving version is."""

    NEXT = "next"
    """To be applied now."""
    STALE = "stale"
    """At or below the position; `closer` tells whether that is harmless."""
    GAP = "gap"
    """Past a version that is missing: to be parked."""
    BLOCKED = "blocked"
    """Behind a head that failed, waits or drains: to be parked."""
    REUSED = "reused"
    """A version that another identity has: an incident, never applied."""
    LATE = "late"
    """A version that a decision or the baseline stepped over: an incident, stays stepped over."""


class Position(msgspec.Struct, frozen=True, gc=False):
    """One aggregate's place for one consumer, as its locked row has it."""

    version: int = 0
    """The last version that was applied or stepped over."""
    head: Head = Head.CLEAR
    finding: bool = False
    """WAITING, and what it waits for are versions that cannot be had: it moves like a GAP when they come."""
    parked: int = 0
    """How many events stand behind the head, the failed one included."""

    @property
    def open(self) -> bool:
        """Whether an arriving version p+1 moves the head."""
        return self.head in (Head.CLEAR, Head.GAP) or (self.head is Head.WAITING and self.finding)


def start(baseline: Baseline) -> int:
    """The version an aggregate's position starts at.

    With "any" too it is zero: a first arrival above 1 is a gap, and what the stream holds lowest decides.
    """
    return baseline - 1 if isinstance(baseline, int) else 0


def judge(position: Position, version: int, sequence: Sequencing = "contiguous") -> Verdict:
    """The verdict on a new identity with `version`. STALE is a candidate for `closer`."""
    if sequence == "unordered":
        return Verdict.NEXT
    if version <= position.version:
        return Verdict.STALE
    if sequence == "monotonic":
        return Verdict.NEXT if position.open else Verdict.BLOCKED
    if version == position.version + 1:
        # Behind any other head the next version is parked already, under another identity.
        return Verdict.NEXT if position.open else Verdict.REUSED
    return Verdict.GAP if position.open else Verdict.BLOCKED


def closer(version: int, *, taken: bool, stepped_over: Sequence[tuple[int, int]]) -> Verdict:
    """What a STALE candidate is: `taken` if another identity was settled under its version.

    `stepped_over` are the inclusive ranges that decisions and the baseline passed without applying.
    """
    if taken:
        return Verdict.REUSED
    if any(first <= version <= last for first, last in stepped_over):
        return Verdict.LATE
    return Verdict.STALE
