"""Whose fault it is that part of a batch does not get through: shown by what else does. Pure.

No code of an error says it. The same words come from a server in trouble, which passes and is nobody's fault, and from
one event that brings it about whenever it is tried. So what misses is tried in ever smaller parts, each in its turn.
What alone stays behind while others go through is to blame; and so is what has kept all waiting for long although it
can be put aside: the transaction that fails an event takes every step of a batch but the handler's, and commits only on
a server that is well.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from projectionist.core.postgres.error_class import ErrorClass

ENOUGH = 2
"""So many misses say something: one is an accident."""
MOST_PATIENCE_S = 320.0
LONGEST_S = 3600.0
"""No event keeps others waiting behind it for longer, however many there are to be patient with."""


class Way(StrEnum):
    """Names what is tried with a part of a batch."""

    APPLY = "apply"
    FAIL = "fail"
    """Park its event as failed, with the error: everything of a batch but the handler and its rows."""
    PUT_ASIDE = "put aside"
    """Keep its bytes in quarantine, as those of something that nobody can read."""


class NextStep(StrEnum):
    """Names what comes next for a part that missed."""

    AGAIN = "again"
    """The same, later, after the others."""
    SPLIT = "split"
    FAIL = "fail"
    PUT_ASIDE = "put aside"
    LEAVE = "leave"
    """Nothing of it can be written: it stays where it came from, told."""
    RAISE = "raise"
    """Nothing of the consumer gets through, by a fault of ours: somebody has to know."""


class FailedPart(msgspec.Struct, frozen=True):
    """A part of a batch that was rolled back, and what speaks for or against it."""

    trouble: ErrorClass
    way: Way = Way.APPLY
    misses: int = 1
    """How often it was rolled back as it is now, this time included."""
    single: bool = False
    """It is one event."""
    others: bool = False
    """Something else of the consumer was applied since its first miss."""
    waited: bool = False
    """It has had the patience that is due where nothing else gets through."""
    exhausted: bool = False
    """It has had the most patience that there is."""
    known: bool = False
    """It was put aside before, for the same kind of reason."""
    long: bool = False
    """The try took so long that another as it is would be a waste."""


def judge(miss: FailedPart) -> NextStep:
    """Return what is done about it."""
    if miss.way is Way.PUT_ASIDE:
        return _of_bytes(miss)
    if miss.way is Way.FAIL:
        return _of_failing(miss)
    if miss.single:
        return NextStep.FAIL if _is_guilty(miss) else NextStep.AGAIN
    if miss.trouble is not ErrorClass.INFRASTRUCTURE or miss.long or miss.misses >= ENOUGH:
        return NextStep.SPLIT
    return NextStep.AGAIN


def _is_guilty(miss: FailedPart) -> bool:
    if miss.trouble is ErrorClass.DATA or miss.known:
        return True
    return miss.misses >= ENOUGH and (miss.others or miss.waited)


def _of_failing(miss: FailedPart) -> NextStep:
    """Judge an event that cannot even be parked as failed: by its own values, or because the server takes nothing."""
    if miss.trouble is not ErrorClass.INFRASTRUCTURE or (
        miss.misses >= ENOUGH and (miss.others or miss.known)
    ):
        return NextStep.PUT_ASIDE
    return NextStep.LEAVE if miss.misses >= ENOUGH and miss.exhausted else NextStep.AGAIN


def _of_bytes(miss: FailedPart) -> NextStep:
    if miss.trouble is ErrorClass.INFRASTRUCTURE and (
        miss.misses < ENOUGH or not (miss.others or miss.exhausted)
    ):
        return NextStep.AGAIN
    if not miss.single:
        return NextStep.SPLIT
    return NextStep.RAISE if miss.trouble is ErrorClass.BUG and not miss.others else NextStep.LEAVE


class ConsumerProgress:
    """Counts what of a consumer gets through in one process, and keeps its patience with what does not."""

    def __init__(self, patience_s: float) -> None:
        self.applied = 0
        """How many batches have applied something."""
        self.patience_s = self._least_patience_s = patience_s
        self._aside_at = 0.0
        """When an event was failed last for no better reason than patience."""

    def has_waited(self, since: float, now: float) -> bool:
        """Return whether what missed first at `since` has had its patience, begun after whatever had it before."""
        return now - max(since, self._aside_at) >= self.patience_s or now - since >= LONGEST_S

    def got_through(self) -> None:
        """Note that a batch has applied something."""
        self.applied += 1
        self.patience_s = self._least_patience_s

    def put_aside(self, miss: FailedPart, now: float) -> None:
        """Note that an event was failed for what may be the server's fault."""
        if not (miss.others or miss.known):
            self._aside_at = now
            self.patience_s = min(2 * self.patience_s, MOST_PATIENCE_S)
