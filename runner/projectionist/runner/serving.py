"""Everything that works together for one consumer in one process, from the opened source to the last heartbeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
import msgspec

from projectionist.runner.breaker import Breaker
from projectionist.runner.course import CONTIGUOUS
from projectionist.runner.due import Due
from projectionist.runner.failing import PROBED
from projectionist.runner.gapfetch import GapFetch
from projectionist.runner.heart import Heart
from projectionist.runner.models import model_for
from projectionist.runner.pipeline import Pipeline
from projectionist.runner.references import References
from projectionist.runner.session import Session
from projectionist.runner.settle import Settler
from projectionist.runner.stored import Stored

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.settings import Settings
    from projectionist.runner.apply import Applied, Batch
    from projectionist.runner.consumer import Consumer
    from projectionist.runner.office import Office
    from projectionist.runner.source import JetStreamSource


class Serving:
    """Serves one consumer until it is stopped or something ends it."""

    def __init__(
        self, consumer: Consumer, settings: Settings, client: Client, office: Office, source: JetStreamSource
    ) -> None:
        schema, limits = settings.postgres.schema, settings.batch
        self._consumer = consumer
        self._limits = limits
        self._breaker = Breaker(consumer, office)
        self._session = Session(consumer, settings.postgres, lambda c, who: model_for(c, who, schema))
        stored = Stored(client, consumer.definition.stream)
        due = Due(consumer, self._session, References(consumer, stored, limits.max_bytes))
        self._pipeline = Pipeline(
            source, consumer.reader.read, Settler(consumer, self._session), due, limits, self._after
        )
        self._gaps = GapFetch(
            consumer,
            *(office, client, source.durable),
            offer=self._pipeline.offer,
            filtered=self._breaker.filtered,
        )
        self._heart = Heart(consumer, office, self._pipeline, source, self._session, settings.run.heartbeat_s)

    async def run(self) -> None:
        """Serve; raises Tripped while the breaker is open, and whatever ends a batch that must not be tried again."""
        await self._breaker.enter()
        if self._breaker.probing:
            few = min(self._limits.max_rows, PROBED)
            self._pipeline.limits = msgspec.structs.replace(self._limits, max_rows=few)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._heart.run)
                if self._consumer.sequence == CONTIGUOUS:
                    tasks.start_soon(self._gaps.run)
                await self._pipeline.run()
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._session.close()
                await self._heart.stop()

    def stop(self) -> None:
        """Take nothing new; `run` returns when what has begun is settled."""
        self._pipeline.stop()

    async def _after(self, batch: Batch, applied: Sequence[Applied]) -> None:
        self._gaps.note(batch, applied)
        if await self._breaker.note(applied):
            self._pipeline.limits = self._limits
