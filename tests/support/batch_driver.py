"""Hands that settle batches with no broker between: each one what a process is inside, on a connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import msgspec
from tests.support.consumer_harness import ConsumerHarness, headers_of
from tests.support.servers import SCHEMA

from projectionist.core.errors import ProjectionistError
from projectionist.core.nats.fast_client import Arrival
from projectionist.core.settings.settings import Policy
from projectionist.projections import Event
from projectionist.projections.compiled.definition import consumer_definition
from projectionist.runner.batch.batch_session import BatchSession
from projectionist.runner.batch.consumer import Consumer
from projectionist.runner.batch.context import BatchContext
from projectionist.runner.batch.handler_factory import model_for
from projectionist.runner.batch.planning import UNORDERED
from projectionist.runner.batch.times import USUAL, BatchTimes
from projectionist.runner.batch.types import Batch, BatchResult
from projectionist.runner.batch.writes import Identity
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.jetstream import api
from projectionist.runner.pipeline.batch_retry import BatchSettler
from projectionist.runner.process.database_access import DatabaseAccess

_sequences = count(1)


class BatchDriver:
    """One process of a consumer, batch by batch as the test says."""

    def __init__(
        self, consumer: Consumer, session: BatchSession, harness: ConsumerHarness, times: BatchTimes = USUAL
    ) -> None:
        self.consumer = consumer
        self.session = session
        self.context = BatchContext(consumer, times=times)
        self.settler = BatchSettler(self.context, session)
        self._harness = harness

    def read(
        self,
        event: Event,
        aggregate: str,
        version: int | None,
        *,
        id: str | None = None,  # noqa: A002 - the envelope's word
        seq: int | None = None,
        delivered: int = 1,
        source: str = "shop",
        kind: str = "order",
    ) -> Delivery:
        """The delivery of an event, as this process reads it from an arrival."""
        place = aggregate if kind == "order" else f"{kind}/{aggregate}"
        found = self.consumer.reader.read(
            arrival(
                self._harness.stream.subject("order", aggregate),
                headers_of(
                    event, aggregate, version, id=id or f"{place}:{version}", source=source, kind=kind
                ),
                msgspec.json.encode(event),
                seq or next(_sequences),
                delivered=delivered,
            )
        )
        assert isinstance(found, Delivery), found
        return found

    async def settle(self, *deliveries: Delivery, due: Sequence[str] = (), **given: Any) -> list[BatchResult]:
        """Settle one batch."""
        return await self.settler.settle(Batch(deliveries, due=due, **given))

    async def due(self, most: int) -> tuple[list[str], list[Identity]]:
        """The aggregates, and the parked events without order, whose time has come."""
        store, _ = await self.session.ready()
        if self.consumer.sequence == UNORDERED:
            return [], await store.due_entries(most)
        return await store.due(most), []

    async def settle_due(self) -> int:
        """Settle what is due, until nothing is; how many batches that took."""
        for batches in count():
            due, entries = await self.due(100)
            if not due and not entries:
                return batches
            await self.settler.settle(Batch(due=due, entries=entries))
        raise AssertionError("not reached")


class Stalled(ProjectionistError):
    """Raised in the middle of a batch, which is rolled back."""


def stalled(driver: BatchDriver, *, fails: bool = False) -> tuple[asyncio.Event, asyncio.Event]:
    """Have the hand's next batch stop before it writes; events that say it has, and that it may go on (or fail)."""
    reached, go_on = asyncio.Event(), asyncio.Event()
    make = driver.session._model

    def slowly(connection: Any, consumer: Any) -> Any:
        model: Any = make(connection, consumer)
        write = model.write

        async def held(folded: Any) -> None:
            if not go_on.is_set():
                reached.set()
                await go_on.wait()
                if fails:
                    raise Stalled("the test says so")
            await write(folded)

        model.write = held
        return model

    driver.session._model = slowly
    return reached, go_on


def arrival(subject: str, headers: dict[str, str], data: bytes, seq: int, *, delivered: int = 1) -> Arrival:
    """A message as JetStream delivers it."""
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    reply = f"$JS.ACK.S.D.{delivered}.{seq}.{seq}.1700000000000000000.0"
    return Arrival(subject, reply.encode(), f"NATS/1.0\r\n{head}\r\n".encode(), data, 0.0)


@asynccontextmanager
async def batch_drivers(
    harness: ConsumerHarness,
    cls: type,
    drivers: int = 1,
    policy: Policy | None = None,
    times: BatchTimes = USUAL,
) -> AsyncIterator[list[BatchDriver]]:
    """So many processes of one consumer, whose read model is there."""
    stream = await api.stream(harness.nats, harness.stream.name)
    access = DatabaseAccess(harness.pool, SCHEMA)
    made: list[BatchDriver] = []
    try:
        for _ in range(drivers):
            consumer = await access.join(consumer_definition(cls), policy or harness.policy, stream)
            session = BatchSession(
                consumer, harness.settings.postgres, lambda c, who: model_for(c, who, SCHEMA)
            )
            made.append(BatchDriver(consumer, session, harness, times))
        yield made
    finally:
        for driver in made:
            await driver.session.close()
