"""The clock of local deadlines: it never goes back and, where the system allows, counts suspend."""

from __future__ import annotations

import time
from functools import partial

now = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
"""Seconds since some moment that is the same for the whole run of this machine."""

LEAST_S = 1.0
"""A step of less is none: what is stored waits longer than that anyway."""


class Other:
    """The clock of another machine, as far as it was heard: it may go back, when another machine takes its place."""

    def __init__(self) -> None:
        self._said: float | None = None
        self._heard = 0.0

    def gone_back(self, said: float, asked: float) -> float:
        """Return by how many seconds it has gone back at least since it was last heard; 0 if it has not.

        `said`: what it says. `asked`: the moment of `now()` before it was asked.
        """
        before, self._said = self._said, said
        passed, self._heard = asked - self._heard, now()
        gone = 0.0 if before is None else before + passed - said
        return gone if gone > LEAST_S else 0.0
