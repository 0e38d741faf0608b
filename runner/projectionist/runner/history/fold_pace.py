"""Decides by the speed of handlers how much is folded at a stretch: other tasks, locks and interruptions wait."""

from __future__ import annotations

from math import ceil

SLICE_S = 0.05
"""How long is folded at a stretch before other tasks get their turn."""
KEPT_S = 60.0
"""How much work of the bulk an interruption may cost, as far as it can be divided."""
MOST_BUCKETS = 256
FIRST, MOST = 100, 10_000
"""How many events one transaction of catching up folds: before anything is known, and at most."""
WINDOW_S = 0.25
"""How long one such transaction should take."""
TELLING = 50
"""So many events tell how fast handlers are; with fewer the statements around them count for more."""


def divided(worked_s: float, share: float, kept_s: float = KEPT_S) -> int:
    """Return over how many buckets a bulk is best spread of which this share took so long; 0: too early to say.
    Pure."""
    if worked_s < kept_s:
        return 0
    buckets = ceil(worked_s / share / kept_s)
    return 1 if buckets <= 2 else min(buckets, MOST_BUCKETS)


class Pace:
    """The time that an event takes that is caught up, as far as it is known."""

    def __init__(self) -> None:
        self._each_s: float | None = None

    def took(self, events: int, seconds: float) -> None:
        """Note that so many were folded in this time."""
        if events >= TELLING:
            self._each_s = seconds / events

    def within(self, seconds: float, most: int) -> int:
        """Return how many are folded in this time, and no more than `most`; one at least."""
        if not self._each_s:
            return most
        return max(1, min(most, int(seconds / self._each_s)))

    def window(self) -> int:
        """Return how many one transaction folds."""
        return FIRST if self._each_s is None else self.within(WINDOW_S, MOST)
