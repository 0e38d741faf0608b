"""Brings one batch to its end: runs it, again where it must, and finds the event that PostgreSQL refuses."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import anyio
import msgspec

from projectionist.core.backoff import Retry, wait
from projectionist.core.signals import announce
from projectionist.core.telemetry import meters, names
from projectionist.core.trouble import Trouble, classify
from projectionist.runner.apply import Transaction
from projectionist.runner.batch import Batch
from projectionist.runner.retry import Failing, Refusal
from projectionist.runner.turn import Turn
from projectionist.runner.writes import Again

if TYPE_CHECKING:
    from projectionist.runner.batch import Applied
    from projectionist.runner.consumer import Consumer
    from projectionist.runner.delivery import Delivery
    from projectionist.runner.session import Session
    from projectionist.runner.store import Store

OUTAGE = Retry(initial_s=0.25, coefficient=2.0, maximum_s=1.0, attempts=1)
"""How a batch waits for what concerns it alone; for PostgreSQL itself it waits at the gates."""
PATIENCE = 0.25
"""As a share of the ack wait."""

T = TypeVar("T")

LONG_S = 20.0
"""A try that fails after so long is not made as a whole again: the server ends what idles, or runs, for too long."""


class Settler:
    """Settles the batches of one consumer, one after the other, on one session."""

    def __init__(self, consumer: Consumer, session: Session) -> None:
        self._consumer = consumer
        self._session = session
        self.patience_s = consumer.policy.ack_wait_s * PATIENCE
        """How long what is worked on may take before the broker is told that it still is."""

    @property
    def ill(self) -> bool:
        """Whether batches cannot be committed at the moment, for no fault of theirs."""
        return self._session.ill

    async def settle(self, batch: Batch, turn: Turn | None = None) -> list[Applied]:
        """Settle everything in the batch; returns once it is committed, however long PostgreSQL is away."""
        tries, turn = 0, turn or Turn()
        while True:
            begun = time.monotonic()
            try:
                return [await self._once(batch, turn)]
            except Again:
                announce("batch.again")
                self._count("again")
            except Exception as error:  # every class of error has its answer below, and none is swallowed
                match classify(error):
                    case Trouble.DATA if batch.refusal is None:
                        return await self._isolate(batch, str(error), turn)
                    case Trouble.DATA | Trouble.BUG:  # not the event's values: parking it is refused as well
                        raise
                tries += 1
                lasted = time.monotonic() - begun
                await self._outage(error, tries)
                if lasted > LONG_S and (less := self._less(batch)):
                    return [applied for part in less for applied in await self.settle(part, turn)]

    async def _once(self, batch: Batch, turn: Turn) -> Applied:
        store, model = await self._session.ready()
        async with self._session.insisting():
            applied = await Transaction(self._consumer, store, model, batch, turn).run()
        self._session.well()
        return applied

    async def surely(self, step: Callable[[Store], Awaitable[T]]) -> T:
        """Run one statement of our own, however long PostgreSQL is away."""
        tries = 0
        while True:
            try:
                return await step((await self._session.ready())[0])
            except Exception as error:  # as in `settle`
                if classify(error) is not Trouble.INFRASTRUCTURE:
                    raise
                tries += 1
                await self._outage(error, tries)

    def _count(self, why: str) -> None:
        meters.add(names.RETRIES, 1, {names.CONSUMER: self._consumer.definition.name, names.REASON: why})

    async def _outage(self, error: Exception, tries: int) -> None:
        self._count("outage")
        self._consumer.exists.clear()
        await self._session.failed(error)
        announce("batch.outage")
        if not self._session.paced:
            await anyio.sleep(wait(OUTAGE, tries, chance=random.uniform(0.5, 1.0)))  # noqa: S311 - jitter

    async def _isolate(self, batch: Batch, error: str, turn: Turn) -> list[Applied]:
        """Halve the batch until the event stands alone whose values PostgreSQL refuses, and fail that one."""
        announce("batch.isolated")
        self._count("isolated")
        parts = units(batch)
        if len(parts) > 1:
            two = halves(parts, batch.limit)
            return [applied for half in two for applied in await self.settle(half, turn)]
        if batch.limit is None or batch.limit > 1:
            less = msgspec.structs.replace(batch, limit=0 if batch.deliveries else 1)
            return await self.settle(less, turn)
        return await self.settle(
            msgspec.structs.replace(batch, refusal=Refusal(Failing.DATABASE, error)), turn
        )

    def _less(self, batch: Batch) -> Sequence[Batch]:
        """The batch in halves; of a single aggregate, what it drains at once halved. Nothing where it is one event."""
        if len(parts := units(batch)) > 1:
            return halves(parts, batch.limit)
        limit = self._consumer.policy.drain_limit if batch.limit is None else batch.limit
        return [msgspec.structs.replace(batch, limit=limit // 2)] if limit > 1 else []


def halves(parts: Sequence[Batch], limit: int | None) -> tuple[Batch, Batch]:
    """Parts of a batch as two batches."""
    middle = len(parts) // 2
    return merged(parts[:middle], limit), merged(parts[middle:], limit)


def units(batch: Batch) -> list[Batch]:
    """The batch in the smallest parts that may fail on their own: by aggregate, and inside one aggregate by event."""
    groups: dict[str, list[Delivery]] = {aggregate: [] for aggregate in batch.due}
    for delivery in batch.deliveries:
        groups.setdefault(delivery.aggregate or delivery.id, []).append(delivery)
    parts = [Batch(entries=[identity]) for identity in batch.entries]
    if batch.unreadable:
        parts.append(Batch(unreadable=batch.unreadable))
    if len(groups) + len(parts) > 1:
        due = frozenset(batch.due)
        return parts + [Batch(group, due=[a] if a in due else []) for a, group in sorted(groups.items())]
    ordered = sorted(batch.deliveries, key=lambda d: (d.version or 0, d.seq))
    return parts + ([Batch(due=batch.due)] if batch.due else []) + [Batch([delivery]) for delivery in ordered]


def merged(parts: Sequence[Batch], limit: int | None) -> Batch:
    """Parts of a batch as one again."""
    return Batch(
        [d for part in parts for d in part.deliveries],
        [u for part in parts for u in part.unreadable],
        [a for part in parts for a in part.due],
        [e for part in parts for e in part.entries],
        limit=limit,
    )
