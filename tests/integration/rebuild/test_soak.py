"""Days of rebuilds, in little: live goes on, columns and revisions come, and nobody who reads notices any of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import Any, ClassVar

import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.onlookers import Onlooker, Onlookers, Wait, made_to_wait, note
from tests.support.rebuilding import RebuildHarness
from tests.support.roles import as_plain, plain
from tests.support.servers import SCHEMA, Servers, Stream
from tests.support.shop import OrderPaid, OrderPlaced
from tests.support.standby import standby
from tests.support.waiting import eventually, listening

from projectionist.projections import Projection, on
from projectionist.runner.batch.types import Batch
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.pipeline.loop import Pipeline
from projectionist.runner.read_models.generations import sweep

pytestmark = pytest.mark.asyncio

LONG = os.environ.get("SOAK_REBUILDS") == "all"
MOST_S = 1.0
"""How long readers and batches may be kept waiting."""
SAMPLE = ("rebuild", "column", "revision", "sweep")
WHOLE = (
    *("rebuild", "rebuild", "column", "rebuild", "rebuild", "revision", "rebuild"),
    *("rebuild", "column", "rebuild", "rebuild", "revision", "rebuild", "rebuild", "sweep"),
)
LOOK = """select count(*) as n, count(distinct worth / cents) as revisions,
    coalesce(bool_and(worth % cents = 0 and status in ('placed', 'paid')), true) as sound,
    count(*) filter (where customer <> 'ann') as of_others from sold"""


class Sold(Projection):
    """One row an order; `worth` says by which revision it was made."""

    order_id: str
    customer: str = ""
    status: str = "new"
    cents: int = 0
    worth: int = 0

    factor: ClassVar[int] = 1

    @on(OrderPlaced)
    def placed(self, event: OrderPlaced) -> None:
        self.customer, self.status = event.customer, "placed"
        self.cents, self.worth = event.cents, event.cents * self.factor

    @on(OrderPaid)
    def paid(self, event: OrderPaid) -> None:
        self.status = "paid"


class Carried(Sold):
    """It has a column more."""

    carrier: str = "none"


class Noted(Carried):
    """It has two."""

    note: str = "none"


def sold(stream: Stream, columns: int, revision: int) -> type:
    """The consumer with so many further columns, at a revision."""
    base: type = (Sold, Carried, Noted)[columns]
    policy = {"stream": stream.name, "subjects": stream.subject("order", "{aggregate}"), "name": "Sold"}

    class Made(base, table="sold", key="order_id", revision=revision, **policy):  # type: ignore[misc, call-arg]
        factor: ClassVar[int] = revision

    return Made


def beside(stream: Stream) -> type:
    """A consumer of the same events that nobody rebuilds, and whose table nobody else reads."""

    class Beside(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="beside",
        key="order_id",
    ):
        order_id: str
        cents: int = 0

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.cents = event.cents

        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> None:
            self.cents += 0

    return Beside


def wrong(*, own: bool) -> Callable[[Any, int], str | None]:
    """What is wrong with what a reader sees: fewer rows than before, rows of two revisions, rows of others."""

    def judge(row: Any, before: int) -> str | None:
        if row["n"] < before:
            return f"{row['n']} rows where there were {before}"
        if row["revisions"] > 1 or not row["sound"]:
            return f"rows that no revision makes: {row}"
        return f"rows of others: {row}" if own and row["of_others"] else None

    return judge


class Batches:
    """How long batches took, those of the consumer that is rebuilt and those of its twin."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of: dict[str, list[Wait]] = {"Sold": [], "Beside": []}
        self.many = 0
        whole = Pipeline._settle

        async def settle(pipeline: Pipeline, settler: Any, batch: Batch) -> Any:
            began = monotonic()
            try:
                return await whole(pipeline, settler, batch)
            finally:
                self.many += 1
                note(self.of[pipeline._name], began)

        monkeypatch.setattr(Pipeline, "_settle", settle)

    def longest(self) -> float:
        """The longest of the one, without what kept the other waiting at the time."""
        return max((made_to_wait(one, self.of["Beside"]) for one in self.of["Sold"]), default=0.0)


class Days:
    """The consumer as it is deployed, and what is done to it."""

    def __init__(self, rebuilds: RebuildHarness) -> None:
        self.rebuilds, self.harness = rebuilds, rebuilds.harness
        self.columns, self.revision = 0, 1
        self.orders, self.open = 0, True
        self._deployed = AsyncExitStack()

    @property
    def cls(self) -> type:
        """The class as it is now."""
        return sold(self.harness.stream, self.columns, self.revision)

    async def deploy(self) -> None:
        """Start processes with the class as it is now, then stop those of before."""
        before, self._deployed = self._deployed, AsyncExitStack()
        with listening() as heard:
            running = self.harness.running(
                self.cls, beside(self.harness.stream), processes=2, supervised=True
            )
            await self._deployed.enter_async_context(running)
            await heard.wait("worker.running", 4)
        await before.aclose()

    async def stop(self) -> None:
        """Stop the processes."""
        await self._deployed.aclose()

    async def step(self, what: str) -> None:
        """One of the things that befall a consumer."""
        match what:
            case "rebuild":
                await self.rebuilds.rebuild(self.cls, accept_differences=True)
            case "column":
                self.columns += 1
                await self.harness.migrate(self.cls)
                await self.deploy()
            case "revision":
                self.revision += 1
                await self.deploy()
            case _:
                await eventually(self._swept)

    async def _swept(self) -> bool:
        await self.harness.pool.execute(
            f"update {SCHEMA}.generations set kept_until = now() where state = 'kept'"
        )
        async with self.harness.connected() as connection:
            number = await connection.fetchval(f"select number from {SCHEMA}.views where name = 'Sold'")
            try:
                await sweep(Queries(connection, SCHEMA), number)
            except RebuildError:  # somebody reads it at this moment
                return False
        return True

    async def sell(self, *, every_s: float) -> None:
        """Publish orders until the shop is closed, each with both of its events."""
        while self.open:
            self.orders += 1
            name = f"o{self.orders:06}"
            customer = ("ann", "bob")[self.orders % 2]
            await self.harness.publish(OrderPlaced(customer, self.orders), name, 1)
            await self.harness.publish(OrderPaid(), name, 2)
            await asyncio.sleep(every_s)

    def rows(self) -> list[tuple[Any, ...]]:
        """What the table has to hold in the end."""
        more = ("none",) * self.columns
        return [
            (f"o{n:06}", ("ann", "bob")[n % 2], "paid", n, n * self.revision, *more)
            for n in range(1, self.orders + 1)
        ]


@asynccontextmanager
async def roles(harness: ConsumerHarness) -> AsyncIterator[Sequence[str]]:
    """Let the runners be a plain role; the addresses of three readers' roles."""
    async with (
        as_plain(harness),
        plain(harness, "soak_idler") as idler,
        plain(harness, "soak_distant") as distant,
        plain(harness, "soak_tenant") as tenant,
    ):
        yield idler, distant, tenant


LOOKED_AT = """
create table untouched (n int); insert into untouched select generate_series(1, 1000);
alter view sold set (security_invoker = true);
grant usage on schema projectionist to soak_idler, soak_distant, soak_tenant;
grant select on untouched, sold, projectionist.sold__g1 to soak_idler, soak_distant, soak_tenant;
alter table projectionist.sold__g1 enable row level security;
create policy everything on projectionist.sold__g1 to soak_idler, soak_distant using (true);
create policy own on projectionist.sold__g1 to soak_tenant using (customer = 'ann');
"""


@pytest.mark.deadline(900 if LONG else 480)
async def test_readers_under_load_notice_no_rebuild_migration_revision_or_sweep(
    rebuilds: RebuildHarness, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, batches = rebuilds.harness, Batches(monkeypatch)
    async with roles(harness) as (idler, distant, tenant):
        days = Days(rebuilds)
        await harness.migrate(days.cls, beside(harness.stream))
        await harness.pool.execute(LOOKED_AT)
        with standby(servers) as copy:
            await copy.configured("hot_standby_feedback = on", "wal_receiver_status_interval = '1s'")
            await copy.caught_up()
            crowd = Onlookers(
                Onlooker("idle in a transaction", idler, LOOK, wrong(own=False), idle_s=0.2),
                Onlooker("on a standby", copy.url(distant), LOOK, wrong(own=False)),
                Onlooker("under row-level security", tenant, LOOK, wrong(own=True)),
                beside="select count(*) from untouched",
            )
            await days.deploy()
            selling = asyncio.create_task(days.sell(every_s=0.05))
            try:
                with crowd:
                    for what in WHOLE if LONG else SAMPLE:
                        await days.step(what)
                        assert not selling.done(), selling.exception()
            finally:
                days.open = False
                await selling
                await days.stop()
        for one in crowd.onlookers:
            assert one.errors == [], one.name
            assert one.looks > 20, one.name
            assert one.kept_waiting() < MOST_S, one.name
        assert batches.many > 50
        assert batches.longest() < MOST_S
        await harness.settle(days.cls)
        assert await harness.rows("sold") == days.rows()
        assert await rebuilds.tables() == ["beside__g1", f"sold__g{await rebuilds.generation(days.cls)}"]
