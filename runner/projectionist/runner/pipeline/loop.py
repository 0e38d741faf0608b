"""One consumer at work: arrivals are read while the batch before them is in the database; acks follow commits."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio.lowlevel import checkpoint

from projectionist.core import clock, json_limits
from projectionist.core.telemetry import liveness
from projectionist.core.testpoints import announce
from projectionist.core.user_errors import lasting
from projectionist.runner.batch.handoff import DecodedArrivals, Handoff
from projectionist.runner.batch.sequencing import BatchOrder
from projectionist.runner.batch.transaction import BatchAttempt
from projectionist.runner.batch.types import Batch, BatchResult
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.jetstream.ack_subject import stream_sequence

if TYPE_CHECKING:
    from projectionist.core.nats.fast_client import Arrival
    from projectionist.core.settings.settings import BatchLimits as Limits
    from projectionist.runner.batch.context import BatchContext
    from projectionist.runner.decoding.decoder import Decoder
    from projectionist.runner.decoding.delivery import Unreadable
    from projectionist.runner.gaps.fetcher import GapFetcher
    from projectionist.runner.jetstream.pull_source import Source
    from projectionist.runner.pipeline.crash_guard import CrashGuard
    from projectionist.runner.pipeline.read_guard import Reads

After = Callable[[Batch, Sequence[BatchResult]], Awaitable[None]]
"""What is done after a batch was settled and acked."""

SLICE = 128
"""How many arrivals are read at a stretch before the database's answers get their turn."""
KEEP_EVERY_S = 1.0
LATE_S = 30.0
"""After so long without a sign a loop is late: it hangs, or its database does."""


class WorkSource(Protocol):
    """Gives out batches whose time has come."""

    async def take(self) -> tuple[list[Batch], bool]:
        """Return batches to be settled now, and whether there is more."""


class Pipeline:
    """Reads, settles and acks for one consumer until it is stopped."""

    def __init__(
        self,
        context: BatchContext,
        source: Source,
        guards: Sequence[CrashGuard],
        due: WorkSource,
        gaps: GapFetcher,
        handoff: Handoff,
        limits: Limits,
        after: After,
        reads: Reads,
    ) -> None:
        consumer = context.consumer
        self._context, self._name = context, consumer.definition.name
        self._source = source
        self._decoder: Decoder = consumer.reader
        self._guards = guards
        """As many as there may be batches open at once. The first one sweeps, over the session that `due` has too."""
        self._suspicion = guards[0].suspicion
        self._batch_order: BatchOrder | None = None
        self._due = due
        self._gaps = gaps
        self._limits = limits
        self._after = after
        self._reads = reads
        self._patience_s = consumer.policy.ack_wait_s * context.times.progress_share
        self._handoff = handoff
        self._several = anyio.Event()
        """Batches may be open beside the first guard's."""
        self._several.set()
        self._open: list[Sequence[Arrival]] = []
        """What was taken and is not settled."""
        self._stopping = False
        self._taking = anyio.CancelScope()
        self._sweep_s, self._sweep_at = context.times.sweep_s, 0.0
        self._planned: list[float] = []
        self.durations: deque[float] = deque(maxlen=512)
        self.batches = 0

    async def run(self) -> None:
        """Work until `stop` is called; a batch that has begun is brought to its end."""
        try:
            async with anyio.create_task_group() as keeping:
                keeping.start_soon(lasting, self._keep)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(lasting, self._read)
                    for guard in self._guards:
                        tasks.start_soon(lasting, partial(self._work, guard))
                keeping.cancel_scope.cancel()
        finally:
            for loop in ("keep", "settle"):
                liveness.ended(loop, self._name)

    def give_back(self) -> None:
        """Have the broker deliver again at once what was taken and is not settled; `run` has ended."""
        for arrivals in self._open:
            self._source.give_back(arrivals)

    def begin_with(self, limits: Limits) -> None:
        """Take batches of this size, one at a time, until `limit` is called. To be said before `run`."""
        self._limits = limits
        self._several = anyio.Event()

    def limit(self, limits: Limits) -> None:
        """Take batches of this size from now on, as many at a time as there are guards."""
        self._limits = limits
        self._several.set()

    def stop(self) -> None:
        """Take nothing new; `run` returns when what has begun is settled."""
        self._stopping = True
        self._taking.cancel()

    async def _read(self) -> None:
        try:
            while not self._stopping:
                limits = self._limits
                arrivals: list[Arrival] = []
                with anyio.CancelScope() as self._taking:
                    arrivals = await self._source.take(
                        limits.max_rows, limits.max_bytes, limits.max_ms / 1000
                    )
                if not arrivals:
                    continue
                self._open.append(arrivals)
                await self._handoff.put(DecodedArrivals(arrivals, await self._decoded(arrivals)))
        finally:
            self._handoff.close()
            self._several.set()

    async def _keep(self) -> None:
        """Keep the broker from sending again what this process holds and works on; ask for nothing more meanwhile."""
        while True:
            liveness.beat("keep", self._name, within_s=LATE_S)
            await anyio.sleep(min(self._patience_s, KEEP_EVERY_S))
            self._source.hold(held=any(guard.settler.session.is_failing for guard in self._guards))
            waiting = [arrival for arrivals in self._open for arrival in arrivals]
            if waiting and clock.now() - waiting[0].received > self._patience_s:
                self._source.in_progress(waiting)
                announce("source.kept")

    async def _decoded(self, arrivals: Sequence[Arrival]) -> Batch:
        if self._suspicion.until is not None:
            await self._reads.look(arrivals)
        deliveries: list[Delivery] = []
        unreadable: list[Unreadable] = []
        foreign: list[int] = []
        for start in range(0, len(arrivals), SLICE):
            part = arrivals[start : start + SLICE]
            large = max(len(arrival.data) for arrival in part) > json_limits.LARGE
            for arrival in part:
                if large and len(arrival.data) > json_limits.LARGE:
                    await self._decoder.examine(arrival.data)
                one = self._decoder.read(arrival)
                if isinstance(one, Delivery):
                    deliveries.append(one)
                elif one is not None:
                    unreadable.append(one)
                else:
                    foreign.append(stream_sequence(arrival.reply))
            await checkpoint()
        return Batch(deliveries=deliveries, unreadable=unreadable, foreign=foreign)

    async def _work(self, guard: CrashGuard) -> None:
        session, sweeps = guard.settler.session, guard is self._guards[0]
        if sweeps:
            await session.warm()
        if not (sweeps or self._several.is_set()):
            await self._several.wait()
        while not self._handoff.over:
            if sweeps:
                liveness.beat("settle", self._name, within_s=LATE_S, vital=False)
            until = self._due_at() - time.monotonic() if sweeps else self._sweep_s
            read = await self._handoff.take(max(0.0, until))
            if read is None and not self._stopping:
                await session.warm()
            elif read is not None:
                applied = await self._settle(guard, read.batch)
                self._source.ack(written(read.arrivals, applied))
                if read.arrivals:
                    self._open.remove(read.arrivals)
                announce("batch.acked")
                await self._after(read.batch, applied)
            if sweeps and time.monotonic() >= self._due_at() and not self._stopping:
                await self._take_up_due(guard)

    async def _settle(self, guard: CrashGuard, batch: Batch) -> list[BatchResult]:
        begun = time.monotonic()
        batch_order = self._batch_order = BatchOrder(self._batch_order)
        try:
            applied = await self._applied(guard, batch, batch_order)
        finally:
            batch_order.over()
        for one in applied:
            self._plan_due(one)
        self.durations.append(time.monotonic() - begun)
        self.batches += 1
        return applied

    async def _applied(self, guard: CrashGuard, batch: Batch, batch_order: BatchOrder) -> list[BatchResult]:
        """Run the batch; what does not get through is left to others, as is all while there is suspicion."""
        if self._suspicion.until is not None:
            return await guard.settle(batch, batch_order)
        attempt = BatchAttempt(self._context, guard.settler.session)
        try:
            return [await attempt.run(batch, batch_order)]
        except Exception as error:  # noqa: BLE001  each class has its answer, and none is swallowed
            return await guard.settler.settle_failed(batch, batch_order, attempt, error)

    def _plan_due(self, applied: BatchResult) -> None:
        if applied.delay is not None:
            heappush(self._planned, time.monotonic() + applied.delay)
            self._handoff.rouse()  # whoever sweeps may wait for longer, and another guard have made this due

    def _due_at(self) -> float:
        return min(self._sweep_at, self._planned[0]) if self._planned else self._sweep_at

    async def _take_up_due(self, guard: CrashGuard) -> None:
        """Settle what waits for its time, and have gaps looked for."""
        now = time.monotonic()
        self._sweep_at = now + self._sweep_s
        while self._planned and self._planned[0] <= now:
            heappop(self._planned)
        self._gaps.wake()
        batches, more = await self._due.take()
        for batch in batches:
            await self._after(batch, await self._settle(guard, batch))
        if batches:
            announce("due.settled")
        if more:
            self._sweep_at = 0.0


def written(arrivals: Sequence[Arrival], applied: Iterable[BatchResult]) -> Sequence[Arrival]:
    """Return the arrivals of a batch without those that were left as they are."""
    left = {id(arrival) for one in applied for arrival in one.left}
    return [arrival for arrival in arrivals if id(arrival) not in left] if left else arrivals
