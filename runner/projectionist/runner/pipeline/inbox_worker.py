"""Store first: what the inbox holds is claimed by aggregate and applied, beside the batches that fill it.

A claim is a mark on the position; behind it stands the runner's lease, which is kept by a thread of its own. What
makes it safe is neither: the batch transaction looks under the position's lock whether the claim is still its own.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import anyio

from projectionist.core.log_format import facts
from projectionist.core.percentile import percentile
from projectionist.core.testpoints import announce
from projectionist.runner.batch.position_lock import entered
from projectionist.runner.batch.types import Batch
from projectionist.runner.pipeline.due_work import MOST_DUE, DueWork
from projectionist.runner.pipeline.lease_renewer import LeaseRenewer

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings
    from projectionist.runner.batch.batch_session import BatchSession
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.inbox_store import InboxStore
    from projectionist.runner.batch.types import BatchResult
    from projectionist.runner.database.chores import FailureBook
    from projectionist.runner.jetstream.message_lookup import Stored
    from projectionist.runner.pipeline.crash_guard import CrashGuard


log = logging.getLogger("projectionist.runner")

SLOWEST = 3
"""A lease lasts so many times as long as 99 of 100 batches take, if that is more than the settings say."""


class Drain:
    """Applies what is stored for one consumer, until it is stopped."""

    def __init__(
        self,
        consumer: Consumer,
        session: BatchSession,
        settler: CrashGuard,
        stored: Stored,
        settings: Settings,
        book: FailureBook,
        after: Callable[[Batch, Sequence[BatchResult]], Awaitable[None]],
        sweep_s: float,
    ) -> None:
        self._sweep_s = sweep_s
        self._consumer = consumer
        self._session = session
        self._settler = settler
        most_bytes = settings.batch.max_bytes
        self._due = DueWork(consumer, session, stored, most_bytes, book, settler.suspicion, self._claim)
        self._after = after
        self._least_lease_s = self.lease_s = settings.run.lease_s
        self._keeper = LeaseRenewer(settings.postgres, consumer.number, consumer.runner, lambda: self.lease_s)
        self._woken, self._again_s = anyio.Event(), self._sweep_s
        self._stopping = False
        self.durations: deque[float] = deque(maxlen=512)
        self.batches = 0

    async def take(self) -> tuple[list[Batch], bool]:
        """Do here what is due, for the pipeline that stores: none is left for it."""
        self._woken.set()
        return [], False

    def wake(self) -> None:
        """Look for stored events at once."""
        self._woken.set()

    def stop(self) -> None:
        """Claim nothing new; `run` returns when what was claimed last is settled."""
        self._stopping = True
        self._woken.set()

    async def run(self) -> None:
        """Work whenever something was stored or the pipeline looks for what is due, and at least every second."""
        try:
            await self._keeper.start()
            while not self._stopping:
                with anyio.move_on_after(self._again_s):
                    await self._woken.wait()
                self._woken, self._again_s = anyio.Event(), self._sweep_s
                while await self._once():
                    pass
        finally:
            with anyio.CancelScope(shield=True):
                await self._keeper.stop()
                await self._session.close()

    async def _once(self) -> bool:
        """Claim and settle; whether there may be more."""
        self._again_s = self._again_s or self._sweep_s
        batches, more = await self._due.take()
        for batch in batches:
            await self._settle(batch)
        return (more or not self._again_s) and not self._stopping

    async def _settle(self, batch: Batch) -> None:
        applied = await self._settler.settle(batch)
        # Without what it has waited for a server: that makes no batch slow, and would make the lease as long for hours.
        self.durations.append(sum(one.took_s for one in applied))
        self.batches += 1
        # Longer than the slowest batches take: a runner that is slow, and lives, is not taken for dead.
        p99 = percentile(sorted(self.durations), 0.99) or 0.0
        self.lease_s = max(self._least_lease_s, SLOWEST * p99 / 1000)
        self._again_s = min([self._again_s, *(one.delay for one in applied if one.delay is not None)])
        announce("drain.settled")
        await self._after(batch, applied)

    async def _claim(self, store: InboxStore) -> list[str]:
        """Claim aggregates that are due."""
        async with entered(store, self._consumer):
            rows = await store.rows("claim_due_aggregates", self._consumer.runner, MOST_DUE)
        if rows:
            announce("drain.claimed")
        if taken := sum(1 for row in rows if row["taken"]):
            about = facts(consumer=self._consumer.definition.name, count=taken, kind="taken_over")
            log.warning(
                "%s: %d aggregates taken over, claimed by a process whose lease is over",
                self._consumer.definition.name,
                taken,
                extra=about,
            )
        return sorted(row["aggregate"] for row in rows)
