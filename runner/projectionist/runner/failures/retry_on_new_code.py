"""What failed on older code is tried again by newer code: a sample first, and all the rest if it gets through."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from projectionist.core.postgres.statements import Statements
from projectionist.core.testpoints import announce
from projectionist.runner.batch.batch_session import store_of
from projectionist.runner.batch.consumer import ControlRow
from projectionist.runner.batch.planning import UNORDERED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncpg import Record

    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.shared_pool import SharedPool

log = logging.getLogger("projectionist.runner")

SAMPLE = 5
CHUNK = 1_000


class Rearm:
    """Looks for what failed on older code, a step at a time. Several processes may do so at once."""

    def __init__(self, consumer: Consumer, access: SharedPool) -> None:
        self._consumer = consumer
        self._access = access
        self._sample: list[Record] | None = None
        self._released = False
        self._over = False
        self._unread = True
        self._code = consumer.code

    async def step(self) -> None:
        """Make a sample due, or the rest once one of the sample has got through; nothing while the sample is open.

        What could not even be read needs no sample: reading it again calls no handler.
        """
        if self._code != self._consumer.code:  # a view was left out of the set, or has joined it
            self._code = self._consumer.code
            self._sample, self._released, self._over, self._unread = None, False, False, True
        if self._unread:
            self._unread = await reread_quarantine(self._access, self._consumer, CHUNK)
        if self._over:
            return
        if self._released:
            self._over = not await self._release()
        elif self._sample is None:
            await self._try_sample()
        else:
            await self._look_at_sample(self._sample)

    async def _try_sample(self) -> None:
        self._sample = await retry_failed(self._access, self._consumer, SAMPLE)
        self._over = not self._sample
        if self._sample:
            log.info(
                "%s: new code tries what failed, %d first", self._consumer.definition.name, len(self._sample)
            )
            announce("rearm.sampled")

    async def _look_at_sample(self, sample: Sequence[Record]) -> None:
        mended, still_open = await sample_outcome(self._access, self._consumer, sample)
        if mended:
            self._released = True
        elif not still_open:
            log.warning(
                "%s: new code fails on all of them too; the rest waits", self._consumer.definition.name
            )
            self._over = True
            announce("rearm.failed")

    async def _release(self) -> bool:
        rest = await retry_failed(self._access, self._consumer, CHUNK)
        if rest:
            announce("rearm.released")
        return bool(rest)


async def retry_failed(pool: SharedPool, consumer: Consumer, most: int) -> list[Record]:
    """Make at most so many failed heads, or events without order, of other code than this due; which ones."""
    statement = (
        "schedule_failed_events_on_new_code"
        if consumer.sequence == UNORDERED
        else "schedule_failed_heads_on_new_code"
    )
    async with pool.lend() as connection, connection.transaction():
        store = store_of(connection, pool.schema, consumer.number)
        await store.enter()
        rows = await store.control()
        if not rows or rows[0]["paused"] or not consumer.runs(ControlRow.of(rows)):
            return []
        return await connection.fetch(
            Statements("projectionist.runner", pool.schema)[statement], consumer.number, consumer.code, most
        )


async def reread_quarantine(pool: SharedPool, consumer: Consumer, most: int) -> bool:
    """Have at most so much of quarantine read again that other code could not read; whether there was any."""
    async with pool.lend() as connection:
        tag = await connection.execute(
            Statements("projectionist.runner", pool.schema)["schedule_reread_on_new_code"],
            consumer.number,
            consumer.code,
            most,
        )
    return not tag.endswith(" 0")


async def sample_outcome(pool: SharedPool, consumer: Consumer, sample: Sequence[Record]) -> tuple[bool, bool]:
    """Return whether one of the sample has got through, and whether one is still to be tried."""
    statement = (
        "select_sample_events_outcome" if consumer.sequence == UNORDERED else "select_sample_heads_outcome"
    )
    columns = zip(*(tuple(row) for row in sample), strict=True)
    async with pool.lend() as connection:
        row = await connection.fetchrow(
            Statements("projectionist.runner", pool.schema)[statement], consumer.number, *columns
        )
    return (False, False) if row is None else (row["mended"], row["open"])
