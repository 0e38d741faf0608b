"""What failed on older code is tried again by newer code: a sample first, and all the rest if it gets through."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from projectionist.core.testpoints import announce

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncpg import Record

    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.process.database_access import DatabaseAccess

log = logging.getLogger("projectionist.runner")

SAMPLE = 5
CHUNK = 1_000


class Rearm:
    """Looks for what failed on older code, a step at a time. Several processes may do so at once."""

    def __init__(self, consumer: Consumer, office: DatabaseAccess) -> None:
        self._consumer = consumer
        self._office = office
        self._sample: list[Record] | None = None
        self._released = False
        self._over = False
        self._unread = True

    async def step(self) -> None:
        """Make a sample due, or the rest once one of the sample has got through; nothing while the sample is open.

        What could not even be read needs no sample: reading it again calls no handler.
        """
        if self._unread:
            self._unread = await self._office.reread(self._consumer, CHUNK)
        if self._over:
            return
        if self._released:
            self._over = not await self._release()
        elif self._sample is None:
            await self._try_sample()
        else:
            await self._look_at_sample(self._sample)

    async def _try_sample(self) -> None:
        self._sample = await self._office.rearm(self._consumer, SAMPLE)
        self._over = not self._sample
        if self._sample:
            log.info(
                "%s: new code tries what failed, %d first", self._consumer.definition.name, len(self._sample)
            )
            announce("rearm.sampled")

    async def _look_at_sample(self, sample: Sequence[Record]) -> None:
        mended, still_open = await self._office.rearmed(self._consumer, sample)
        if mended:
            self._released = True
        elif not still_open:
            log.warning(
                "%s: new code fails on all of them too; the rest waits", self._consumer.definition.name
            )
            self._over = True
            announce("rearm.failed")

    async def _release(self) -> bool:
        rest = await self._office.rearm(self._consumer, CHUNK)
        if rest:
            announce("rearm.released")
        return bool(rest)
