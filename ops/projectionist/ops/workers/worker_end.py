"""What the end of a worker means: when it is started again, and when nothing is to be hoped of any of them. Pure."""

from __future__ import annotations

import signal
from collections.abc import Collection

import msgspec

from projectionist.core.retry_policy import RetryPolicy, interval, wait

AGAIN = RetryPolicy(initial_s=0.5, maximum_s=60)
WELL_S = 60.0
"""A worker that has run for so long since it was ready has gone well: its end is the first of a row."""


class WorkerEnd(msgspec.Struct, frozen=True):
    """Says how a worker ended: its exit code (negative: the signal), and for how long it had been ready, if ever."""

    code: int
    ready_s: float | None = None
    unstarted: str = ""
    """Why there was no process at all."""

    @property
    def hopeless(self) -> bool:
        """Return whether the next try would end as this one: it said no by itself, before it could do anything.

        Servers that are away are waited for, so what is left is what waiting mends not: settings, credentials, an app
        that cannot be imported, newer code. Who was killed has said nothing, and who found no room on
        the machine was never asked.
        """
        return self.code > 0 and self.ready_s is None

    @property
    def told(self) -> str:
        """Return it in words."""
        return f"could not be started ({self.unstarted})" if self.unstarted else ending_in_words(self.code)


def row_of(ending: WorkerEnd, before: int) -> int:
    """Return how many ends in a row this one makes, after `before` of them."""
    return 1 if ending.ready_s is not None and ending.ready_s >= WELL_S else before + 1


def pause_s(row: int, chance: float) -> float:
    """Return the seconds until it is started again; `chance`: a random number from 0 to 1."""
    return wait(AGAIN, row, chance=chance, asked_s=interval(AGAIN, row))


def all_hopeless(last: Collection[WorkerEnd | None]) -> bool:
    """Return whether to give up: the last try of each said no. None: it runs, or has not ended yet."""
    return all(ending is not None and ending.hopeless for ending in last)


def ending_in_words(code: int) -> str:
    """Return how a process with this exit code has ended."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
