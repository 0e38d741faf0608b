"""The place where one task leaves batches for another: arrivals that were read, and what was fetched for a gap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
import msgspec

if TYPE_CHECKING:
    from projectionist.core.nats.fast_client import Arrival
    from projectionist.runner.batch.types import Batch


class DecodedArrivals(msgspec.Struct):
    """Arrivals, and what they turned out to be; what came on another way than from the durable carries no ack."""

    arrivals: Sequence[Arrival]
    batch: Batch


class Handoff:
    """One task puts, one takes; putting waits until the one before has been taken.

    Unlike a cancelled receive, a wait that times out here loses nothing.
    """

    def __init__(self) -> None:
        self._held: list[DecodedArrivals] = []
        self._closed = False
        self._roused = 0
        self._changed = anyio.Event()

    async def put(self, batch: DecodedArrivals) -> None:
        """Leave `batch` for the other task."""
        while self._held:
            await self._changed.wait()
        self._held.append(batch)
        self._wake()

    async def take(self, timeout_s: float) -> DecodedArrivals | None:
        """Return what was left; None when nothing came in time or will come any more, or when `rouse` was called."""
        roused = self._roused
        if self._is_idle(roused):
            with anyio.move_on_after(timeout_s):
                while self._is_idle(roused):
                    await self._changed.wait()
        if not self._held:
            return None
        batch = self._held.pop()
        self._wake()
        return batch

    def rouse(self) -> None:
        """Have those who wait for a batch look whether something else is to be done sooner than they knew."""
        self._roused += 1
        self._wake()

    def close(self) -> None:
        """Note that nothing more will be put."""
        self._closed = True
        self._wake()

    @property
    def over(self) -> bool:
        """Return whether it is closed and empty."""
        return self._closed and not self._held

    def _is_idle(self, roused: int) -> bool:
        return not self._held and not self._closed and roused == self._roused

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
