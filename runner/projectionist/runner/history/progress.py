"""How a long reading goes, for whoever watches."""

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
        """A phase begins; `total` is how many events or rows it is about, as far as known."""

    async def advance(self, done: int) -> None:
        """So many more are done. May wait: that is how a reading is throttled."""

    def say(self, text: str) -> None:
        """Something worth a line."""


class Logged:
    """Progress as log lines, one every few seconds; `limit` is how many events a second may be read at most."""

    def __init__(self, name: str, limit: float | None = None) -> None:
        self._name = name
        self._limit = limit
        self._phase, self._total, self._done = "", 0, 0
        self._begun = self._told = clock.now()

    def begin(self, phase: str, total: int) -> None:
        """A phase begins."""
        self._phase, self._total, self._done = phase, total, 0
        self._begun = self._told = clock.now()
        log.info("%s: %s, %d to do", self._name, phase, total)

    async def advance(self, done: int) -> None:
        """So many more are done."""
        self._done += done
        now = clock.now()
        if self._limit and (early := self._done / self._limit - (now - self._begun)) > 0:
            await anyio.sleep(early)
        if now - self._told > EVERY_S:
            self._told = now
            log.info("%s: %s", self._name, self._how(self._done / (now - self._begun)))

    def _how(self, rate: float) -> str:
        """How far the phase is; catching up may have nothing to do for as long as the swap has to wait."""
        how = f"{self._phase}, {self._done} of {self._total}, {rate:.0f}/s"
        return f"{how}, {max(0, self._total - self._done) / rate:.0f} s left" if rate else how

    def say(self, text: str) -> None:
        """Something worth a line."""
        log.info("%s: %s", self._name, text)


class Watched:
    """Progress that can be asked how it goes, beside being told on."""

    def __init__(self, told: Progress) -> None:
        self._told = told
        self.doing, self.expected, self.done = "", 0, 0
        self._begun = clock.now()

    def begin(self, phase: str, total: int) -> None:
        """A phase begins."""
        self.doing, self.expected, self.done = phase, total, 0
        self._begun = clock.now()
        self._told.begin(phase, total)

    async def advance(self, done: int) -> None:
        """So many more are done."""
        self.done += done
        await self._told.advance(done)

    def say(self, text: str) -> None:
        """Something worth a line."""
        self._told.say(text)

    @property
    def per_s(self) -> float:
        """How many were done in a second of this phase."""
        return self.done / max(clock.now() - self._begun, 1e-3)
