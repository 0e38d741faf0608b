"""What a database or role may be set to by its owner, and still every batch stands on its own statements."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA
from tests.support.shop import OrderPlaced, shop
from tests.support.waiting import eventually

from projectionist.core.postgres import connections
from projectionist.projections import Projection, on
from projectionist.runner.batch.consumer import Superseded
from projectionist.runner.batch.handlers import FoldedBatch
from projectionist.runner.batch.sql_handlers import SqlHandlers

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_whatever_isolation_a_database_prefers_ours_reads_each_statement_anew(
    live: ConsumerHarness, isolation: str
) -> None:
    await prefer(live, isolation)
    connection = await connections.connect(live.settings.postgres, application_name="test")
    try:
        async with connection.transaction():
            assert await connection.fetchval("show transaction_isolation") == "read committed"
    finally:
        await connection.close()


async def test_a_batch_that_waited_at_the_barrier_sees_what_it_waited_for(live: ConsumerHarness) -> None:
    """With the snapshot of its first statement it would commit under code that has been replaced."""
    await prefer(live, "repeatable read")
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1))
        store, _ = await driver.session.ready()
        taker = await asyncpg.connect(live.database)
        try:
            async with taker.transaction():
                await taker.execute("select pg_advisory_xact_lock($1)", store._barrier)
                batch = driver.settle(driver.read(OrderPlaced("ann", 1), "o2", 1))
                task = asyncio.create_task(batch)

                async def waits() -> bool:
                    return bool(
                        await taker.fetchval(
                            "select exists (select from pg_locks where locktype = 'advisory' and not granted)"
                        )
                    )

                await eventually(waits)
                await taker.execute(r"update projectionist.views set code = '\x00'")
        finally:
            await taker.close()
        with pytest.raises(Superseded):
            await task

    assert await inspection.count_inbox(live) == 1


@pytest.mark.parametrize(("preferred", "used"), [("off", "on"), ("remote_write", "remote_write")])
async def test_what_is_acked_is_on_disk_whatever_a_database_prefers(
    live: ConsumerHarness, preferred: str, used: str
) -> None:
    """A commit that a crash of the server may undo is no leave to ack."""
    await prefer(live, preferred, "synchronous_commit")
    s = shop(live.stream)
    await live.migrate(s.Journal)
    seen: list[str] = []

    class Watching(SqlHandlers):
        async def write(self, folded: FoldedBatch) -> None:
            seen.append(await self._connection.fetchval("show synchronous_commit"))

    async with batch_drivers(live, s.Journal) as (driver,):
        driver.session._model = lambda connection, consumer: Watching(connection, consumer, SCHEMA)
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1))

    assert seen == [used]


async def test_a_null_stays_one_in_a_database_that_takes_it_for_a_word(live: ConsumerHarness) -> None:
    class Offers(
        Projection,
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
        table="offers",
        key="offer_id",
    ):
        offer_id: str
        who: str | None = None
        cents: int | None = None

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.who = None if event.customer == "nobody" else event.customer

    await prefer(live, "off", "array_nulls")
    await live.migrate(Offers)
    async with batch_drivers(live, Offers) as (driver,):
        await driver.settle(
            driver.read(OrderPlaced("nobody", 1), "o1", 1), driver.read(OrderPlaced("null", 1), "o2", 1)
        )

    assert await live.rows("offers") == [("o1", None, None), ("o2", "null", None)]


async def prefer(live: ConsumerHarness, value: str, setting: str = "default_transaction_isolation") -> None:
    """Let new sessions of this database begin with another setting than PostgreSQL's own default."""
    name = await live.value("select current_database()")
    await live.pool.execute(f"alter database \"{name}\" set {setting} = '{value}'")
