"""Builders on a rig, and what a test looks at to see that they were silent and right."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from tests.support.lab import SCHEMA
from tests.support.rig import Rig
from tests.support.waiting import eventually

from projectionist.core import broker, signals
from projectionist.projections import definition
from projectionist.runner.rebuild.builder import Builder, Options, Rebuilt, give_up
from projectionist.runner.rebuild.progress import Logged, Progress


class Effects(msgspec.Struct, frozen=True):
    """Everything a silent path must leave as it is."""

    intents: list[tuple[Any, ...]]
    inbox: list[tuple[Any, ...]]
    positions: list[tuple[Any, ...]]
    parked: list[tuple[Any, ...]]


class Slow(Logged):
    """Progress that stands still while something is read, until it is let go."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.reached, self.free = asyncio.Event(), asyncio.Event()

    async def advance(self, done: int) -> None:
        """Wait."""
        self.reached.set()
        await self.free.wait()


class Yard:
    """A rig, and builders on it."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self._asleep: dict[asyncio.Future[Rebuilt], threading.Event] = {}

    def free(self, building: asyncio.Future[Rebuilt]) -> None:
        """Wake a builder that sleeps."""
        self._asleep[building].set()

    async def rebuild(self, cls: type, *, progress: Progress | None = None, **options: Any) -> Rebuilt:
        """Rebuild a consumer to its end."""
        client = await broker.connect(self.rig.settings.nats, name="builder")
        try:
            one = definition(cls)
            told = progress or Logged(one.name)
            return await Builder(one, self.rig.settings, client, told, Options(**options)).run()
        finally:
            await client.close()

    @asynccontextmanager
    async def reading(self, cls: type, **options: Any) -> AsyncIterator[asyncio.Task[Rebuilt]]:
        """A builder that is alive and in the middle of reading inside the block, and goes on after it."""
        slow = Slow(definition(cls).name)
        building = asyncio.create_task(self.rebuild(cls, progress=slow, **options))
        try:
            await slow.reached.wait()
            yield building
        finally:
            slow.free.set()

    @asynccontextmanager
    async def frozen(self, cls: type, point: str, **options: Any) -> AsyncIterator[asyncio.Future[Rebuilt]]:
        """A builder whose process sleeps at an announced point inside the block, and wakes after it, or by `free`."""
        loop, reached, free = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

        async def build() -> Rebuilt:
            return await self.rebuild(cls, **options)

        keepers: list[threading.Thread] = []

        def sleep(name: str) -> None:
            if name == point and not keepers:
                keepers.extend(one for one in threading.enumerate() if one.name.startswith("turn to build"))
                loop.call_soon_threadsafe(reached.set)
                free.wait(60)
            elif name == "turn.renewing" and threading.current_thread() in keepers:
                free.wait(60)

        stop = signals.listen(sleep)
        building = asyncio.ensure_future(asyncio.to_thread(asyncio.run, build()))
        self._asleep[building] = free
        try:
            await reached.wait()
            yield building
        finally:
            free.set()
            stop()

    async def settled(self, *consumers: type) -> None:
        """Wait until these consumers have settled every event of the stream."""
        await self.rig.settled(*consumers)
        for cls in consumers:
            assert await eventually(partial(self._accounts, cls))

    async def _accounts(self, cls: type) -> bool:
        return not await self.rig.unaccounted(cls)

    async def moments_pass(self) -> None:
        """The lease of a builder that is dead or asleep runs out."""
        await self.rig.pool.execute("update projectionist.leases set expires_at = clock_timestamp()")

    async def give_up(self, cls: type) -> int | None:
        """Abort the open build."""
        return await give_up(definition(cls), self.rig.settings)

    async def effects(self) -> Effects:
        """The outbox and the journal, as they stand."""
        fetch = self.rig.fetch
        return Effects(
            await fetch("select * from {s}.intents order by seq"),
            await fetch("select * from {s}.inbox order by consumer, source, id"),
            await fetch("select * from {s}.positions order by consumer, aggregate"),
            await fetch("select * from {s}.parked order by consumer, source, id"),
        )

    async def generation(self, cls: type) -> int:
        """The live generation."""
        found: int = await self.rig.value(
            "select generation from {s}.consumers where name = $1", definition(cls).name
        )
        return found

    async def tables(self) -> list[str]:
        """Every generation's table there is."""
        rows = await self.rig.fetch(
            "select tablename::text from pg_tables where schemaname = $1 and tablename ~ '__g[0-9]+$' order by 1",
            SCHEMA,
        )
        return [name for (name,) in rows]


SHOP_APP = """
from tests.support.lab import Stream
from tests.support.shop import shop
from projectionist.runner import App

made = shop(Stream({name!r}))
app = App(projections=[made.Orders, made.Spend])
"""


def shop_app(folder: Path, rig: Rig) -> dict[str, str]:
    """Write the shop as an app `orders:app` for the real command line; the environment it runs in."""
    (folder / "orders.py").write_text(SHOP_APP.format(name=rig.stream.name))
    return {
        "PROJECTIONIST_POSTGRES__URL": rig.database,
        "PROJECTIONIST_NATS__URL": rig.lab.nats_url,
        "PROJECTIONIST_RUN__HEARTBEAT_S": "0.2",
    }
