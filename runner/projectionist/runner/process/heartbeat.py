"""The heartbeat of a consumer in one process, and beside it what is done every few seconds but may have to wait."""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio

from projectionist.core import clock
from projectionist.core.errors import ProjectionistError
from projectionist.core.percentile import percentile
from projectionist.core.retry_policy import RetryPolicy
from projectionist.core.testpoints import announce
from projectionist.core.user_errors import lasting
from projectionist.runner.batch.batch_session import tag
from projectionist.runner.database.chores import Chore
from projectionist.runner.failures.retry_on_new_code import Rearm

if TYPE_CHECKING:
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.jetstream.pull_source import Source
    from projectionist.runner.pipeline.crash_guard import RecentCrash
    from projectionist.runner.process.database_access import DatabaseAccess
    from projectionist.runner.stream_guard.guard import StreamGuard

log = logging.getLogger("projectionist.runner")

ASKING_S = 1.0
"""How long a beat waits for the broker's word, which it can do without."""
STOPPING_S = 1.0
SWEEP_S = 300.0
MERGE_S, COUNT_S = 15.0, 300.0
"""So often what was counted of what waits is added up, and counted anew."""
SWEEPING = "dropping kept generations"
LOOKED_BACK = 12
"""So many heartbeats after PostgreSQL's clock went back, and after a start, times that it left ahead are looked for: a
process that is frozen holds on to some until it is ended."""
BEATEN = RetryPolicy(initial_s=0.5, maximum_s=2.0)
"""How soon a heartbeat that failed is tried again: the others take silence for death."""


class Paced(Protocol):
    """What settles batches."""

    durations: deque[float]
    batches: int


class Heartbeat:
    """Beats for one consumer until it is cancelled; a beat that fails is told by its absence."""

    def __init__(
        self,
        consumer: Consumer,
        access: DatabaseAccess,
        paced: Paced,
        source: Source,
        interval_s: float,
        guard: StreamGuard,
        suspicion: RecentCrash,
    ) -> None:
        self._consumer = consumer
        self._access = access
        self._paced = paced
        self._source = source
        self._interval_s = interval_s
        self._guard = guard
        self._suspicion = suspicion
        self._rearm = Rearm(consumer, access)
        self._sweeps_at = self._merges_at = self._counts_at = 0.0
        chore = partial(Chore, consumer=consumer.definition.name, book=access.book)
        self._setbacks, self._looks_back = access.setbacks, LOOKED_BACK
        self._settles = chore(
            "closing incidents that are settled", partial(access.settle_incidents, consumer)
        )
        self._merges = chore("adding up counts", self._merge)
        self._backs = chore("what waits by a clock that went back", self._look_back)
        self._looks = chore("looking for processes that ended", self._detect_crashed_peers)
        self._rearms = chore("trying again what other code failed on", self._rearm.step)
        self._sweeps = chore(SWEEPING, self._sweep)
        self._records = chore("recording the ack floor", guard.record, verdicts=(ProjectionistError,))
        self._beats = chore("heartbeat", partial(self._beat, "running"), BEATEN)
        self._ends = chore("last heartbeat", partial(self._beat, "stopped"))
        self._each = (
            *(self._backs, self._looks, self._rearms, self._sweeps, self._settles, self._merges),
            self._records,
        )

    async def run(self) -> None:
        """Beat at every interval; what else there is to do never keeps a beat waiting."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lasting, self._chores)
            while True:
                await self._beats.step()
                await anyio.sleep(self._interval_s)

    async def stop(self, *, clean: bool) -> None:
        """Say how far it was, and that this process runs the consumer no more: unless an error ended it.

        Who goes without a goodbye may have gone because of an event: what comes back is tried with care.
        """
        with anyio.move_on_after(STOPPING_S):
            await self._records.step()
        if clean:
            with anyio.move_on_after(STOPPING_S):
                await self._ends.step()
        else:
            announce("heart.unclean")
        for chore in (*self._each, self._beats, self._ends):
            chore.over()

    async def _chores(self) -> None:
        while True:
            await anyio.sleep(self._interval_s)
            for chore in self._each:
                await chore.step()

    async def _look_back(self) -> None:
        if self._access.setbacks != self._setbacks:
            self._setbacks, self._looks_back = self._access.setbacks, LOOKED_BACK
        if self._looks_back:
            await self._access.shorten_waits(self._consumer)
            self._looks_back -= 1

    async def _detect_crashed_peers(self) -> None:
        self._suspicion.until = await self._access.has_crashed_peers(self._consumer)
        if self._access.lends_sessions:
            await self._access.peers.terminate_transactions(tag(self._access.schema))

    async def _beat(self, state: str) -> None:
        lag = unacked = None
        try:
            if state == "running":
                with anyio.move_on_after(ASKING_S):
                    pending = await self._source.pending()
                    lag, unacked = pending.num_pending, pending.num_ack_pending
        except ProjectionistError:
            log.debug("%s: the broker does not say how far it is", self._consumer.definition.name)
        durations = sorted(self._paced.durations)
        await self._access.beat(
            self._consumer.runner,
            state,
            self._paced.batches,
            percentile(durations, 0.5),
            percentile(durations, 0.99),
            lag,
            unacked,
        )
        announce("heart.beat")

    async def _merge(self) -> None:
        """Keep counts short; now and then, and at first, count anew: older code has perhaps not counted."""
        now = clock.now()
        if now < self._merges_at:
            return
        anew = now >= self._counts_at
        await self._access.merge_counts(self._consumer, anew=anew)
        self._merges_at = now + MERGE_S
        if anew:
            self._counts_at = now + COUNT_S

    async def _sweep(self) -> None:
        """Drop, now and then, generations that were kept long enough."""
        if clock.now() >= self._sweeps_at:
            self._sweeps_at = clock.now() + SWEEP_S
            await self._access.drop_expired_generations(self._consumer)
