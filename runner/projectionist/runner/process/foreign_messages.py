"""Messages that were delivered although the consumer reads no such subject: acked, counted, and left alone.

One filter lets more through than several patterns mean, and a durable is for a while what somebody else has made of it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import anyio

from projectionist.core.telemetry import metrics, names

if TYPE_CHECKING:
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.process.database_access import DatabaseAccess

OUTCOME = "foreign"
WRITING_S = 1.0


class ForeignMessages:
    """Counts them for one consumer in one process; what a process that is killed has not written down is left out."""

    def __init__(self, consumer: Consumer, access: DatabaseAccess) -> None:
        self._consumer = consumer
        self._access = access
        self._unwritten = 0

    def note(self, count: int) -> None:
        """So many more were delivered."""
        self._unwritten += count
        if metrics.on():
            who = {names.CONSUMER: self._consumer.definition.name}
            metrics.add(names.EVENTS, count, who | {names.EVENT_TYPE: "", names.OUTCOME: OUTCOME})

    async def write(self) -> None:
        """Add what was noted to the counters that everybody sees, once: a stop does not cut it off in the middle."""
        if not (count := self._unwritten):
            return
        self._unwritten = 0
        try:
            with anyio.move_on_after(WRITING_S, shield=True):
                async with self._access.store(self._consumer) as store:
                    await store.count(self._consumer.runner, Counter({("", OUTCOME): count}))
        except Exception:
            self._unwritten += count
            raise
