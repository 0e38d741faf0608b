"""Builders on a harness, and what a test looks at to see that they were silent and right."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nats.aio.client import Client
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA
from tests.support.waiting import HANG_S, eventually

from projectionist.core import testpoints
from projectionist.core.nats import connections
from projectionist.core.operator import Act
from projectionist.core.postgres.connections import Connection
from projectionist.projections import definition
from projectionist.projections.compiled.definition import Definition, consumer_definition
from projectionist.runner.database.queries import Queries
from projectionist.runner.history.progress import Logged, Progress
from projectionist.runner.rebuild.rebuild import Options, Rebuild, Rebuilt, give_up
from projectionist.runner.rebuild.times import USUAL, RebuildTimes
from projectionist.runner.verify.recompute import Recomputed, recompute
from projectionist.runner.verify.verify import Verified, Verifier

ACT = Act("me", "to see")


class Effects(msgspec.Struct, frozen=True):
    """Everything a silent path must leave as it is."""

    intents: list[tuple[Any, ...]]
    inbox: list[tuple[Any, ...]]
    positions: list[tuple[Any, ...]]
    parked: list[tuple[Any, ...]]


class Slow(Logged):
    """Progress that stands still once so many were read, until it is let go; the broker sends them in any portions."""

    def __init__(self, name: str, after: int = 1) -> None:
        super().__init__(name)
        self.reached, self.free = asyncio.Event(), asyncio.Event()
        self._missing = after

    async def advance(self, done: int) -> None:
        """Count, and wait when none is missing."""
        self._missing -= done
        if self._missing <= 0:
            self.reached.set()
            await self.free.wait()


class RebuildHarness:
    """A harness, and builders on it."""

    def __init__(self, harness: ConsumerHarness) -> None:
        self.harness = harness
        self._asleep: dict[asyncio.Future[Rebuilt], threading.Event] = {}

    def free(self, building: asyncio.Future[Rebuilt]) -> None:
        """Wake a builder that sleeps."""
        self._asleep[building].set()

    async def rebuild(
        self,
        cls: type,
        *views: type,
        progress: Progress | None = None,
        times: RebuildTimes = USUAL,
        **options: Any,
    ) -> Rebuilt:
        """Rebuild a consumer, or of a set these views, to its end."""
        client = await connections.connect(self.harness.settings.nats, name="builder")
        try:
            one = consumer_definition(cls)
            told = progress or Logged(one.name)
            given = (one, self.harness.settings, client, told, Options(**options))
            named = [view for view in one.views if view.cls in views] or None
            return await Rebuild(*given, views=named, times=times).run()
        finally:
            await client.close()

    async def verify(self, cls: type | Definition, sample: int | None = None) -> Verified:
        """Verify so many rows of a consumer or view, or all of them."""
        async with self._queries("verifier") as (queries, client):
            one = view_of(cls)
            return await Verifier(queries, one, self.harness.settings, client, Logged(one.name)).run(sample)

    async def mend(self, cls: type | Definition, key: str) -> Recomputed:
        """Recompute one row."""
        async with self._queries("mender") as (queries, client):
            return await recompute(queries, view_of(cls), self.harness.settings, client, key, ACT)

    @asynccontextmanager
    async def _queries(self, name: str) -> AsyncIterator[tuple[Queries, Client]]:
        client = await connections.connect(self.harness.settings.nats, name=name)
        try:
            async with self.harness.connected() as connection:
                yield Queries(connection, SCHEMA), client
        finally:
            await client.close()

    @asynccontextmanager
    async def reading(self, cls: type, *views: type, **options: Any) -> AsyncIterator[asyncio.Task[Rebuilt]]:
        """A builder that is alive and in the middle of reading inside the block, and goes on after it."""
        slow = Slow(consumer_definition(cls).name)
        building = asyncio.create_task(self.rebuild(cls, *views, progress=slow, **options))
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
                keepers.extend(one for one in threading.enumerate() if one.name.startswith("build lease"))
                loop.call_soon_threadsafe(reached.set)
                free.wait(HANG_S)
            elif name == "build_lease.renewing" and threading.current_thread() in keepers:
                free.wait(HANG_S)

        stop = testpoints.listen(sleep)
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
        await self.harness.settled(*consumers)
        for cls in consumers:
            assert await eventually(partial(self._accounts, cls))

    async def _accounts(self, cls: type) -> bool:
        return not await self.harness.unaccounted(cls)

    async def moments_pass(self) -> None:
        """The lease of a builder that is dead or asleep runs out."""
        await self.harness.pool.execute("update projectionist.leases set expires_at = clock_timestamp()")

    async def give_up(self, cls: type) -> list[int]:
        """Abort the open build; its generations."""
        return list((await give_up(consumer_definition(cls), self.harness.settings)).values())

    async def effects(self) -> Effects:
        """The outbox and the journal, as they stand."""
        fetch = self.harness.fetch
        return Effects(
            await fetch("select * from {s}.intents order by seq"),
            await fetch("select * from {s}.inbox order by consumer, source, id"),
            await fetch("select * from {s}.positions order by consumer, aggregate"),
            await fetch("select * from {s}.parked order by consumer, source, id"),
        )

    def queries(self, connection: Connection) -> Queries:
        """The queries of a builder on a connection of the test's."""
        return Queries(connection, SCHEMA)

    async def generation(self, cls: type) -> int:
        """The live generation."""
        found: int = await self.harness.value(
            "select generation from {s}.views where name = $1", definition(cls).name
        )
        return found

    async def rows_of(self, cls: type) -> list[Any]:
        """The rows of a projection, in order."""
        table = definition(cls).table
        assert table is not None
        return await self.harness.rows(table.name)

    async def tables(self) -> list[str]:
        """Every generation's table there is."""
        rows = await self.harness.fetch(
            "select tablename::text from pg_tables where schemaname = $1 and tablename ~ '__g[0-9]+$' order by 1",
            SCHEMA,
        )
        return [name for (name,) in rows]

    async def positions(self) -> list[str]:
        """Every table of positions of a build."""
        rows = await self.harness.fetch(
            "select tablename::text from pg_tables where schemaname = $1 and tablename ~ '^build_positions_'",
            SCHEMA,
        )
        return [name for (name,) in rows]


def view_of(cls: type | Definition) -> Definition:
    """The definition of a consumer that is a view by itself, or the one that is given."""
    return cls if isinstance(cls, Definition) else definition(cls)


@contextmanager
def dying(point: str) -> Iterator[None]:
    """Have what is done inside die where it announces `point`."""

    def die(name: str) -> None:
        if name == point:
            raise RuntimeError("the process is gone")

    stop = testpoints.listen(die)
    try:
        with pytest.raises(RuntimeError, match="the process is gone"):
            yield
    finally:
        stop()


SHOP_APP = """
from tests.support.servers import Stream
from tests.support.shop import shop
from projectionist.runner import App

made = shop(Stream({name!r}))
app = App(projections=[made.Orders, made.Spend])
"""


def shop_app(folder: Path, harness: ConsumerHarness) -> dict[str, str]:
    """Write the shop as an app `orders:app` for the real command line; the environment it runs in."""
    (folder / "orders.py").write_text(SHOP_APP.format(name=harness.stream.name))
    return {
        "PROJECTIONIST_POSTGRES__URL": harness.database,
        "PROJECTIONIST_NATS__URL": harness.servers.nats_url,
        "PROJECTIONIST_RUN__HEARTBEAT_S": "0.2",
    }
