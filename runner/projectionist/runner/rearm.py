"""What failed on older code is tried again by newer code: a sample first, and all the rest if it gets through."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from projectionist.core.signals import announce

if TYPE_CHECKING:
    from projectionist.runner.consumer import Consumer
    from projectionist.runner.office import Office

log = logging.getLogger("projectionist.runner")

SAMPLE = 5
CHUNK = 1_000


class Rearm:
    """Looks for failed heads of older code, a step at a time. Several processes may do so at once."""

    def __init__(self, consumer: Consumer, office: Office) -> None:
        self._consumer = consumer
        self._office = office
        self._sample: list[str] | None = None
        self._released = consumer.sequence == "unordered"

    async def step(self) -> None:
        """Make a sample due, or the rest once one of the sample has got through; nothing while the sample is open."""
        if self._released:
            await self._release()
        elif self._sample is None:
            self._sample = await self._office.rearm(self._consumer, SAMPLE)
            self._released = not self._sample
            if self._sample:
                log.info(
                    "%s: new code tries %d failed aggregates again",
                    self._consumer.definition.name,
                    len(self._sample),
                )
                announce("rearm.sampled")
        else:
            mended, still_open = await self._office.rearmed(self._consumer, self._sample)
            if mended:
                self._released = True
            elif not still_open:
                log.warning(
                    "%s: new code fails on all of them too; the rest waits", self._consumer.definition.name
                )
                self._sample = []

    async def _release(self) -> None:
        if await self._office.rearm(self._consumer, CHUNK):
            announce("rearm.released")
