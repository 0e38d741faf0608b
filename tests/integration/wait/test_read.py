"""Rows that an app reads are those its handlers see: typed, with documents decoded."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from uuid import UUID

import asyncpg
import msgspec
import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import Stream
from tests.support.shop import OrderPaid, OrderPlaced, shop
from tests.support.waiting import HANG_S

from projectionist.projections import Projection, on
from projectionist.projections.errors import BadValue
from projectionist.runner import App
from projectionist.runner.wait.outcome import WaitOutcome
from projectionist.runner.wait.read_row import CannotRead

pytestmark = pytest.mark.asyncio


class Grade(Enum):
    """A column of named values."""

    PLAIN = "plain"
    FINE = "fine"


class Line(msgspec.Struct):
    """A part of a document."""

    sku: str
    price: Decimal
    due: date | None = None


def parcels(stream: Stream) -> type[Projection]:
    """One row with a column of every kind."""

    class Parcels(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="parcels",
        key="parcel_id",
    ):
        parcel_id: UUID
        total: Decimal = Decimal(0)
        at: datetime | None = None
        day: date = date(2000, 1, 1)
        grade: Grade = Grade.PLAIN
        raw: bytes = b""
        lines: list[Line] = []
        tags: dict[str, list[int]] = {}
        missing: Decimal | None = None

        @on(OrderPlaced, key=lambda event: UUID(int=event.cents))
        def placed(self, event: OrderPlaced) -> None:
            self.total = Decimal("10000.50")
            self.at = datetime(2026, 3, 29, 2, 30, tzinfo=UTC)
            self.grade = Grade.FINE
            self.raw = b"\x00\xff"
            self.lines.append(Line("shoe", Decimal("1.10"), date(2026, 4, 1)))
            self.tags = {event.customer: [1, 2]}

    return Parcels


async def test_a_row_is_read_as_its_handlers_see_it(live: ConsumerHarness) -> None:
    cls = parcels(live.stream)
    await live.migrate(cls)
    app = App(projections=[cls], settings=live.settings)
    assert await app.read(cls, UUID(int=7)) is None
    async with batch_drivers(live, cls) as (driver,):
        await driver.settle(driver.read(OrderPlaced("ann", 7), "o1", 1))

    row = await app.read(cls, UUID(int=7))
    wanted = cls(UUID(int=7))
    cls.placed(wanted, OrderPlaced("ann", 7))  # type: ignore[attr-defined]
    assert row == wanted
    assert str(row.total) == "10000.50"  # type: ignore[attr-defined]
    async with asyncpg.create_pool(live.database, min_size=1, max_size=1) as pool:
        assert await app.read(cls, UUID(int=7), connection=pool) == wanted
        async with pool.acquire() as connection:
            assert await app.read(cls, UUID(int=7), connection=connection) == wanted
            assert await app.read(cls, UUID(int=8), connection=connection) is None


async def test_each_event_loop_of_a_program_reads_and_waits_on_its_own(live: ConsumerHarness) -> None:
    """`asyncio.run` of a program that blocks, or the loop of a test: what one has opened is of no use to another."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    app = App(projections=[s.Orders], settings=live.settings)
    await live.publish(OrderPlaced("ann", 7), "o1", 1)
    await live.settle(s.Orders)
    wanted = await app.read(s.Orders, "o1")
    assert wanted is not None

    async def story() -> None:
        assert await app.read(s.Orders, "o1") == wanted
        assert (await app.wait_for(s.Orders, "order/o1", 1, timeout_s=HANG_S)).outcome == WaitOutcome.APPLIED

    for _ in range(2):
        await asyncio.gather(*(asyncio.to_thread(asyncio.run, story()) for _ in range(2)), story())
    assert len(app._waiters) <= 3  # those of loops that have ended go with the next


async def test_a_read_that_cannot_be_answered_says_what_to_do(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    app = App(projections=[s.Orders, s.Journal], settings=live.settings)
    with pytest.raises(CannotRead, match="Run `projectionist migrate`"):
        await app.read(s.Orders, "o1")
    with pytest.raises(BadValue, match="column 'order_id' takes a str and got a int"):
        await app.read(s.Orders, 1)
    with pytest.raises(CannotRead, match="Read the views of a SqlProjection by SQL"):
        await app.read(s.Journal, "o1")


async def test_a_row_is_the_same_by_the_connections_of_other_libraries(live: ConsumerHarness) -> None:
    cls = parcels(live.stream)
    await live.migrate(cls)
    app = App(projections=[cls], settings=live.settings)
    async with batch_drivers(live, cls) as (driver,):
        await driver.settle(driver.read(OrderPlaced("ann", 7), "o1", 1))
    wanted = await app.read(cls, UUID(int=7))
    assert wanted is not None
    async with await psycopg.AsyncConnection.connect(live.database, row_factory=dict_row) as connection:
        await connection.execute("set timezone = 'Asia/Kathmandu'")
        assert await app.read(cls, UUID(int=7), connection=connection) == wanted
        assert await app.read(cls, UUID(int=8), connection=connection) is None
    for library in ("asyncpg", "psycopg"):
        engine = create_async_engine(make_url(live.database).set(drivername=f"postgresql+{library}"))
        async with engine.connect() as on, AsyncSession(engine) as session:
            assert await app.read(cls, UUID(int=7), connection=on) == wanted
            assert await app.read(cls, UUID(int=7), connection=session) == wanted
            await on.rollback()  # it holds a lock on the view
            await session.execute(text("drop view parcels"))
            with pytest.raises(CannotRead, match="Run `projectionist migrate`"):
                await app.read(cls, UUID(int=7), connection=session)
        await engine.dispose()
    with pytest.raises(CannotRead, match="got a Engine"):
        await app.read(cls, UUID(int=7), connection=create_engine("postgresql+psycopg://"))  # type: ignore[arg-type]


async def test_a_read_sees_what_the_connection_given_sees(live: ConsumerHarness) -> None:
    """A report that reads several rows sees them as of one moment; a role without a grant sees none."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    app = App(projections=[s.Orders], settings=live.settings)
    async with batch_drivers(live, s.Orders) as (driver,), live.pool.acquire() as mine:
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1))
        async with mine.transaction(isolation="repeatable_read"):
            before = await app.read(s.Orders, "o1", connection=mine)
            await driver.settle(driver.read(OrderPaid(), "o1", 2))
            assert await app.read(s.Orders, "o1", connection=mine) == before
        after = await app.read(s.Orders, "o1", connection=mine)
        assert (before.status, after.status) == ("placed", "paid")  # type: ignore[union-attr]
        async with mine.transaction():
            await mine.execute("create role nobody_at_all; set local role nobody_at_all")
            with pytest.raises(CannotRead, match="Grant it"):
                await app.read(s.Orders, "o1", connection=mine)
