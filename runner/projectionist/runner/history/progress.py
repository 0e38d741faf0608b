"""Tells observers how a long reading goes."""

from __future__ import annotations

import logging
from typing import Protocol

import anyio

from projectionist.core import clock

log = logging.getLogger("projectionist.runner")

EVERY_S = 5.0


class Progress(Protocol):
    """Is told what happens."""

    def begin(self, phase: str, total: int) -> None:
        """Begin a phase; `total` is how many events or rows it is about, as far as known."""

    async def advance(self, done: int) -> None:
        """Note that so many more are done. May wait: that is how a reading is throttled."""

    def say(self, text: str) -> None:
        """Write a line."""


class PhaseProgress:
    """The progress and speed of a phase; `limit` is how many a second there may be at most."""

    def __init__(self, limit: float | None = None) -> None:
        self._limit = limit
        self.phase, self.total, self.done = "", 0, 0
        self._begun = clock.now()

    def begin(self, phase: str, total: int) -> None:
        """Begin a phase."""
        self.phase, self.total, self.done = phase, total, 0
        self._begun = clock.now()

    async def advance(self, done: int) -> None:
        """Count so many more; wait where that is more than the limit."""
        self.done += done
        if self._limit and (early := self.done / self._limit - (clock.now() - self._begun)) > 0:
            await anyio.sleep(early)

    def say(self, text: str) -> None:
        """Tell nobody."""

    @property
    def per_s(self) -> float:
        """Return how many were done in a second of this phase."""
        return self.done / max(clock.now() - self._begun, 1e-3)

    @property
    def left_s(self) -> float:
        """Return how long the rest takes at this pace; 0 where there is no rest, or no pace yet."""
        return max(0, self.total - self.done) / self.per_s if self.done else 0.0


class Logged:
    """Progress as log lines, one every few seconds; `limit` is how many events a second may be read at most."""

    def __init__(self, name: str, limit: float | None = None) -> None:
        self._name = name
        self._pace = PhaseProgress(limit)
        self._logged_at = clock.now()

    def begin(self, phase: str, total: int) -> None:
        """Begin a phase."""
        self._pace.begin(phase, total)
        self._logged_at = clock.now()
        log.info("%s: %s, %d to do", self._name, phase, total)

    async def advance(self, done: int) -> None:
        """Note that so many more are done."""
        now = clock.now()
        await self._pace.advance(done)
        if now - self._logged_at > EVERY_S:
            self._logged_at = now
            log.info("%s: %s", self._name, self._how())

    def _how(self) -> str:
        """Return how far the phase is; catching up may have nothing to do for as long as the swap has to wait."""
        pace = self._pace
        how = f"{pace.phase}, {pace.done} of {pace.total}, {pace.per_s:.0f}/s"
        return f"{how}, {pace.left_s:.0f} s left" if pace.done else how

    def say(self, text: str) -> None:
        """Write a line."""
        log.info("%s: %s", self._name, text)


class Watched(PhaseProgress):
    """Progress that can be asked how it goes, beside being told on."""

    def __init__(self, inner: Progress) -> None:
        super().__init__()
        self._inner = inner

    def begin(self, phase: str, total: int) -> None:
        """Begin a phase."""
        super().begin(phase, total)
        self._inner.begin(phase, total)

    async def advance(self, done: int) -> None:
        """Note that so many more are done."""
        await super().advance(done)
        await self._inner.advance(done)

    def say(self, text: str) -> None:
        """Write a line."""
        self._inner.say(text)


class LateProgress(PhaseProgress):
    """Progress that is told on once it has lasted: of what is done at once nothing is."""

    def __init__(self, inner: Progress, after_s: float) -> None:
        super().__init__()
        self._inner, self._from = inner, clock.now() + after_s
        self._told: int | None = None
        """How much of this phase was told on; None: nothing, not even that it has begun."""

    def begin(self, phase: str, total: int) -> None:
        """Begin a phase."""
        super().begin(phase, total)
        self._told = None
        self._tell_phase()

    async def advance(self, done: int) -> None:
        """Count so many more."""
        await super().advance(done)
        self._tell_phase()
        if self._told is not None:
            told, self._told = self._told, self.done
            await self._inner.advance(self.done - told)

    def say(self, text: str) -> None:
        """Write a line."""
        self._inner.say(text)

    def _tell_phase(self) -> None:
        if self._told is None and clock.now() >= self._from:
            self._told = 0
            self._inner.begin(self.phase, self.total)
