"""A load whose outcome is known, and an independent look whether a consumer has done exactly that, and once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import msgspec
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderPaid, OrderPlaced
from tests.support.waiting import HANG_S, cancelled, listening

from projectionist.core.settings.secret import Url


def tuned(
    harness: ConsumerHarness,
    *,
    url: str | None = None,
    nats: str | None = None,
    run: dict[str, Any] | None = None,
    postgres: dict[str, Any] | None = None,
    policy: dict[str, Any] | None = None,
    rows: int = 1000,
) -> None:
    """Have what the harness runs from now on use other settings than its own."""
    replace, settings = msgspec.structs.replace, harness.settings
    asked = (postgres or {}) | ({"url": Url(url)} if url else {})
    harness.settings = replace(
        settings,
        postgres=replace(settings.postgres, **asked),
        batch=replace(settings.batch, max_rows=rows),
        nats=replace(settings.nats, url=(Url(nats),)) if nats else settings.nats,
        run=replace(settings.run, **(run or {})),
        consumer_defaults=replace(settings.consumer_defaults, **(policy or {})),
    )


class Load:
    """Orders that are placed and paid, published while the consumers work."""

    def __init__(self, harness: ConsumerHarness, shop: SimpleNamespace) -> None:
        self._harness = harness
        self._shop = shop
        self.orders = 0
        self._over = False

    async def more(self, orders: int) -> None:
        """Publish so many further orders."""
        first, self.orders = self.orders, self.orders + orders
        numbers = range(first, self.orders)
        await self._harness.publish_all(
            [(OrderPlaced("ann", n), f"o{n:05}", 1, f"p{n}") for n in numbers]
            + [(OrderPaid(), f"o{n:05}", 2, f"q{n}") for n in numbers]
        )

    async def flow(self, every_s: float = 0.02) -> None:
        """Publish an order after the other until `stop`."""
        while not self._over:
            await self.more(1)
            await asyncio.sleep(every_s)

    def stop(self) -> None:
        """Publish no further order; one that has begun is published whole."""
        self._over = True

    async def check(self, *, killed: bool = False) -> None:
        """Nothing lost, nothing twice, nothing stuck: stream against tables, by a fold of our own; `killed`: a process
        was, perhaps before it took its mark of care away."""
        harness, numbers = self._harness, range(self.orders)
        assert await harness.rows("orders") == [
            (f"o{n:05}", "paid", n, '["placed", "paid"]') for n in numbers
        ]
        assert await harness.rows("spend") == [("ann", self.orders, sum(numbers))] * bool(self.orders)
        assert await inspection.count_intents(harness) == self.orders
        assert await inspection.count_parked(harness) == 0
        assert await inspection.count_quarantined(harness) == 0
        assert (
            await harness.value("select count(*) from {s}.positions where head <> 'clear' or version <> 2")
            == 0
        )
        assert killed or await inspection.count_marks(harness, "crash_marks") == 0
        for cls in (self._shop.Orders, self._shop.Spend):
            assert await harness.unaccounted(cls) == []


@asynccontextmanager
async def flowing(load: Load, every_s: float = 0.02) -> AsyncIterator[None]:
    """The load, as long as the block runs."""
    task = asyncio.create_task(load.flow(every_s))
    try:
        yield
    finally:
        load.stop()
        await asyncio.wait({task}, timeout=HANG_S)
        await cancelled(task)
    task.result()


async def killed_twice(harness: ConsumerHarness) -> None:
    """Kill PostgreSQL twice while batches go through, and wait each time until they do again."""
    for _ in range(2):
        with listening() as heard:
            await heard.wait("batch.acked", 10)
            harness.servers.kill_postgres()
            await heard.wait("postgres.reach.ill")
            await asyncio.to_thread(harness.servers.up)
            await heard.wait("postgres.reach.well")
            await heard.wait("batch.acked", heard.counts["batch.acked"] + 5)
