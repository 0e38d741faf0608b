"""Everything that works together for one consumer in one process, from the opened source to the last heartbeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
import msgspec

from projectionist.core.user_errors import lasting
from projectionist.projections.compiled.definition import Kind
from projectionist.runner.batch.batch_session import BatchSession
from projectionist.runner.batch.handler_factory import model_for
from projectionist.runner.batch.handoff import Handoff
from projectionist.runner.batch.planning import CONTIGUOUS
from projectionist.runner.failures.consumer_breaker import ConsumerBreaker
from projectionist.runner.failures.failure_window import PROBED
from projectionist.runner.gaps.fetcher import GapFetcher
from projectionist.runner.jetstream.message_lookup import Stored
from projectionist.runner.pipeline.batch_retry import BatchSettler
from projectionist.runner.pipeline.crash_guard import CrashGuard, RecentCrash
from projectionist.runner.pipeline.due_work import DueWork
from projectionist.runner.pipeline.inbox_worker import Drain
from projectionist.runner.pipeline.loop import Pipeline
from projectionist.runner.pipeline.read_guard import Reads
from projectionist.runner.process.end_reason import is_explained, is_refused
from projectionist.runner.process.heartbeat import Heartbeat
from projectionist.runner.telemetry.batch_log import log_batch, tell_unnamed
from projectionist.runner.telemetry.batch_metrics import BatchMetrics

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Settings
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.context import BatchContext
    from projectionist.runner.batch.handlers import Model
    from projectionist.runner.batch.types import Batch, BatchResult
    from projectionist.runner.jetstream.pull_source import JetStreamSource
    from projectionist.runner.process.database_access import DatabaseAccess
    from projectionist.runner.stream_guard.guard import StreamGuard

AT_ONCE = 2
"""How many batches of a consumer are open at once: one claims while the one before it is judged and written. Of a
SqlProjection only one: its time is the database's, and may be longer than others should wait for a lock."""


class ConsumerRuntime:
    """Serves one consumer until it is stopped or something ends it."""

    def __init__(
        self,
        context: BatchContext,
        settings: Settings,
        client: Client,
        access: DatabaseAccess,
        source: JetStreamSource,
        stream_guard: StreamGuard,
    ) -> None:
        consumer, limits, book = context.consumer, settings.batch, access.book
        self._measures = BatchMetrics(consumer.definition, limits, context.types, settings.telemetry.sources)
        self._consumer, self._limits, self._times = consumer, limits, context.times
        self._breaker = ConsumerBreaker(consumer, access)
        self._access, self._suspicion = access, RecentCrash(access.trial)
        self._logged_unnamed = False
        self._reads = Reads(consumer, access, self._suspicion)
        at_once = 1 if consumer.definition.kind is Kind.SQL else AT_ONCE
        self._sessions = [self._session(settings, stream_guard) for _ in range(at_once)]
        stored = Stored(client, consumer.definition.stream)
        self._drain: Drain | None = None
        if consumer.stores_first:
            own, sweep_s = self._session(settings, stream_guard), context.times.sweep_s
            guard = CrashGuard(BatchSettler(context, own), self._suspicion)
            self._drain = Drain(consumer, own, guard, stored, settings, book, self._after, sweep_s)
        work = self._drain or DueWork(
            consumer, self._sessions[0], stored, limits.max_bytes, book, self._suspicion
        )
        guards = [CrashGuard(BatchSettler(context, one), self._suspicion) for one in self._sessions]
        handoff = Handoff()
        self._gaps = GapFetcher(consumer, access, client, source.durable, handoff, self._breaker, book)
        self._pipeline = Pipeline(
            context, source, guards, work, self._gaps, handoff, limits, self._after, self._reads
        )
        paced, beat_s = self._drain or self._pipeline, settings.run.heartbeat_s
        self._heart = Heartbeat(consumer, access, paced, source, beat_s, stream_guard, self._suspicion)

    def _session(self, settings: Settings, stream_guard: StreamGuard) -> BatchSession:
        def model(connection: Connection, who: Consumer) -> Model:
            return model_for(connection, who, settings.postgres.schema, self._times)

        return BatchSession(
            self._consumer,
            settings.postgres,
            model,
            gates=self._access.gates,
            peers=self._access.peers,
            arrive=stream_guard.arrive,
        )

    async def run(self) -> None:
        """Serve; raises Tripped while the breaker is open, and whatever ends a batch that must not be tried again."""
        self._suspicion.until = await self._access.has_crashed_peers(self._consumer)
        await self._reads.begin()
        await self._breaker.enter()
        if self._breaker.probing:
            few = min(self._limits.max_rows, PROBED)
            self._pipeline.begin_with(msgspec.structs.replace(self._limits, max_rows=few))
        clean = True
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lasting, self._heart.run)
                if self._consumer.sequence == CONTIGUOUS:
                    tasks.start_soon(lasting, self._gaps.run)
                async with anyio.create_task_group() as work:
                    if self._drain is not None:
                        work.start_soon(lasting, self._drain.run)
                    await self._pipeline.run()
                    self.stop()
                tasks.cancel_scope.cancel()
        except Exception as error:
            if is_refused(error):  # whichever task has met it, also one that has cancelled the pipeline
                self._pipeline.give_back()
            clean = is_explained(error)
            if not clean:
                self._access.broken_off.add(self._consumer.runner)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                for session in self._sessions:
                    await session.close()
                await self._heart.stop(clean=clean)

    def stop(self) -> None:
        """Take nothing new; `run` returns when what has begun is settled."""
        self._pipeline.stop()
        if self._drain is not None:
            self._drain.stop()

    async def _after(self, batch: Batch, applied: Sequence[BatchResult]) -> None:
        self._measures.note(batch, applied)
        log_batch(self._consumer.definition.name, applied)
        if self._consumer.reader.unnamed and not self._logged_unnamed:
            self._logged_unnamed = True
            tell_unnamed(self._consumer.definition.name, batch.deliveries)
        for one in applied:
            if one.spans is not None:
                one.spans.acked()
        if any(one.writes.staged for one in applied):
            self._access.wake()
        if self._drain is not None and any(one.writes.parked for one in applied):
            self._drain.wake()
        if await self._breaker.note(applied):
            self._pipeline.limit(self._limits)
