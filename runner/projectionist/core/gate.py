"""Whether a server can be used, known once for all of a process, and whose turn it is to try meanwhile."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from projectionist.core import clock
from projectionist.core.testpoints import announce

log = logging.getLogger("projectionist.runner")

PAUSE_S = 1.0
"""The least time between two tries of one process."""

T = TypeVar("T")


class Gate:
    """Open while all is well. Once something failed, one try a second goes through until one has worked.

    Both changes are told in one line each, however many consumers wait.
    """

    def __init__(self, name: str, trouble: str, relief: str, pause_s: float = PAUSE_S) -> None:
        self._name = name
        self._trouble, self._relief = trouble, relief
        self._pause_s = pause_s
        self._probing = anyio.Lock()
        self._opened = anyio.Event()
        self._closed_at: float | None = None
        self._next_try = 0.0

    @property
    def closed(self) -> bool:
        """Return whether the last thing known is that it failed."""
        return self._closed_at is not None

    async def wait_turn(self) -> None:
        """Return at once while the gate is open, otherwise when it is the caller's turn to try."""
        while self.closed:
            async with self._probing:
                opened = self._opened
                with anyio.move_on_after(self._next_try - clock.now()):
                    await opened.wait()
                if not opened.is_set() and clock.now() >= self._next_try:
                    self._next_try = clock.now() + self._pause()
                    return

    def failed(self, error: BaseException) -> None:
        """Note that a try has failed, for a reason that the next one meets too."""
        if self._closed_at is None:
            self._closed_at, self._opened = clock.now(), anyio.Event()
            self._next_try = self._closed_at + self._pause()
            log.warning("%s, trying again until it can: %s", self._trouble, error)
            announce(f"{self._name}.ill")

    def record_success(self) -> None:
        """Note that a try got through to its end."""
        if self._closed_at is not None:
            log.info("%s again, after %.1f s", self._relief, clock.now() - self._closed_at)
            self._closed_at = None
            self._opened.set()
            announce(f"{self._name}.well")

    def probe_now(self) -> None:
        """Let the next caller try at once: something has worked, which proves too little."""
        if self.closed:
            self._next_try = clock.now()
            self._opened.set()
            self._opened = anyio.Event()

    async def attempt(self, make: Callable[[], Awaitable[T]]) -> T:
        """Return what `make` returns, when it is our turn; how it ends counts for all."""
        await self.wait_turn()
        try:
            made = await make()
        except Exception as error:
            self.failed(error)
            raise
        self.record_success()
        return made

    async def until(self, make: Callable[[], Awaitable[T]], passing: Callable[[Exception], bool]) -> T:
        """Return what `make` returns, tried for as long as what it raises is `passing`; anything else goes up."""
        while True:
            await self.wait_turn()
            try:
                made = await make()
            except Exception as error:  # the caller says which of them pass
                if not passing(error):
                    raise
                self.failed(error)
            else:
                self.record_success()
                return made

    def _pause(self) -> float:
        # Longer by chance: the processes of a fleet were all cut off in the same moment.
        return self._pause_s * random.uniform(1.0, 1.25)  # noqa: S311 - jitter


def postgres_reach() -> Gate:
    """Return the gate before connections to PostgreSQL."""
    return Gate("postgres.reach", "PostgreSQL cannot be reached", "PostgreSQL can be reached")


def nats_reach() -> Gate:
    """Return the gate before the connection to NATS."""
    return Gate("nats.reach", "NATS cannot be reached", "NATS can be reached")
