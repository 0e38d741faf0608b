"""Store first: what the inbox holds is claimed by aggregate and applied, beside the batches that fill it.

A claim is a mark on the position; behind it stands the runner's lease, which is kept by a thread of its own. What
makes it safe is neither: the batch transaction looks under the position's lock whether the claim is still its own.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import anyio

from projectionist.core.signals import announce
from projectionist.runner.apply import Batch
from projectionist.runner.course import UNORDERED
from projectionist.runner.due import MOST_DUE
from projectionist.runner.heart import percentile
from projectionist.runner.keeper import Keeper
from projectionist.runner.settle import Settler
from projectionist.runner.trouble import is_transient

if TYPE_CHECKING:
    from projectionist.core.settings import Settings
    from projectionist.runner.apply import Applied
    from projectionist.runner.consumer import Consumer
    from projectionist.runner.references import References
    from projectionist.runner.session import Session
    from projectionist.runner.store import Store


SWEEP_S = 1.0
"""How often what is due is looked for, even while nothing can be stored."""
SLOWEST = 3
"""A lease lasts so many times as long as 99 of 100 batches take, if that is more than the settings say."""


class Drain:
    """Applies what is stored for one consumer, until it is stopped."""

    def __init__(
        self,
        consumer: Consumer,
        session: Session,
        references: References,
        settings: Settings,
        after: Callable[[Batch, Sequence[Applied]], Awaitable[None]],
    ) -> None:
        self._consumer = consumer
        self._session = session
        self._settler = Settler(consumer, session)
        self._references = references
        self._after = after
        self._least_lease_s = self.lease_s = settings.run.lease_s
        self._keeper = Keeper(settings.postgres, consumer.number, consumer.runner, lambda: self.lease_s)
        self._woken = anyio.Event()
        self._stopping = False
        self.durations: deque[float] = deque(maxlen=512)
        self.batches = 0

    async def take(self) -> tuple[list[Batch], bool]:
        """In place of what is due, for the pipeline that stores: it is done here, now."""
        self._woken.set()
        return [], False

    def stop(self) -> None:
        """Claim nothing new; `run` returns when what was claimed last is settled."""
        self._stopping = True
        self._woken.set()

    async def run(self) -> None:
        """Work whenever the pipeline looks for what is due, and at least every second."""
        try:
            await self._keeper.start()
            while not self._stopping:
                with anyio.move_on_after(SWEEP_S):
                    await self._woken.wait()
                self._woken = anyio.Event()
                while await self._once():
                    announce("drain.goes_on")
        finally:
            with anyio.CancelScope(shield=True):
                await self._keeper.stop()
                await self._session.close()

    async def _once(self) -> bool:
        """Claim and settle; whether there may be more."""
        batch, more = await self._claimed()
        if batch is not None:
            await self._settle(batch)
        return more and not self._stopping

    async def _settle(self, batch: Batch) -> None:
        begun = time.monotonic()
        applied = await self._settler.settle(batch)
        self.durations.append(time.monotonic() - begun)
        self.batches += 1
        # Longer than the slowest batches take: a runner that is slow, and lives, is not taken for dead.
        p99 = percentile(sorted(self.durations), 0.99) or 0.0
        self.lease_s = max(self._least_lease_s, SLOWEST * p99 / 1000)
        announce("drain.settled")
        await self._after(batch, applied)

    async def _claimed(self) -> tuple[Batch | None, bool]:
        """What this runner settles next, and whether there may be more; nothing while PostgreSQL is away."""
        try:
            store, _ = await self._session.ready()
            if self._consumer.sequence == UNORDERED:
                entries = await store.due_entries(MOST_DUE)
                return (Batch(entries=entries) if entries else None), len(entries) == MOST_DUE
            return await self._aggregates(store)
        except Exception as error:  # what is not an outage goes up
            if not is_transient(error):
                raise
            await self._session.failed(error)
            return None, False

    async def _aggregates(self, store: Store) -> tuple[Batch | None, bool]:
        async with store.connection.transaction():
            await store.enter()
            self._consumer.check(await store.control())
            rows = await store.rows("claim_due", self._consumer.runner, MOST_DUE)
        if not rows:
            return None, False
        announce("drain.claimed")
        claimed = sorted(row["aggregate"] for row in rows)
        later = await self._references.fetch(store, claimed)
        now = [aggregate for aggregate in claimed if aggregate not in later]
        return (Batch(due=now) if now else None), True
