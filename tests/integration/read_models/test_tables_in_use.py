"""Tables that somebody uses while they are changed, indexed or emptied; and indexes that follow their declaration."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from tests.integration.consumers.test_evolve import grown
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.rebuilding import RebuildHarness
from tests.support.servers import SCHEMA
from tests.support.shop import OrderPlaced, shop
from tests.support.waiting import listening

from projectionist.core.operator import Act
from projectionist.projections import Index, Projection, definition, on
from projectionist.runner.admin.reset import CannotReset, Resetting
from projectionist.runner.read_models.change_plan import ReadModelError
from projectionist.runner.read_models.generations import drop
from projectionist.runner.read_models.migrate import ReadModels

pytestmark = pytest.mark.asyncio

INDEXES = "select indexdef from pg_indexes where tablename = 'indexed__g1' and indexname not like '%pkey'"


def _indexed(harness: ConsumerHarness, *indexes: Index) -> type:
    given = list(indexes)

    class Indexed(
        Projection,
        stream=harness.stream.name,
        subjects=harness.stream.subject("order", "{aggregate}"),
        table="indexed",
        key="order_id",
        indexes=given,
    ):
        order_id: str
        a: int = 0
        b: int = 0

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.a = event.cents

    return Indexed


async def _columns(harness: ConsumerHarness) -> list[str]:
    return sorted(text.rpartition("(")[2].rstrip(")") for (text,) in await harness.fetch(INDEXES))


async def test_an_index_whose_columns_changed_is_made_anew_and_a_removed_one_is_dropped(
    live: ConsumerHarness,
) -> None:
    await live.migrate(_indexed(live, Index("a", name="by"), Index("b")))
    assert await _columns(live) == ["a", "b"]
    await live.pool.execute("create index mine on projectionist.indexed__g1 (a, b)")

    await live.migrate(_indexed(live, Index("b", name="by")))

    assert await _columns(live) == ["a, b", "b"]
    async with live.connected() as connection:
        models = ReadModels(connection, "projectionist")
        assert await models.plan([definition(_indexed(live, Index("b", name="by")))]) == []


async def test_an_index_that_was_not_finished_is_made_again_by_the_next_migrate(
    live: ConsumerHarness,
) -> None:
    await live.migrate(_indexed(live, Index("a")))
    valid = "pg_index {} indexrelid = 'projectionist.indexed__g1_a'::regclass"
    await live.pool.execute("update " + valid.format("set indisvalid = false where"))
    await live.migrate(_indexed(live, Index("a")))
    assert await live.value("select indisvalid from " + valid.format("where"))


async def test_readers_of_the_view_wait_for_a_moment_only_while_a_table_cannot_be_changed(
    live: ConsumerHarness,
) -> None:
    """Locks are taken in the order of the readers, and not asked for longer than a moment."""
    await live.migrate(shop(live.stream).Orders)
    longest, over, patience_s = 0.0, False, 4.0
    holder, reader = await asyncpg.connect(live.database), await asyncpg.connect(live.database)

    async def read() -> None:
        nonlocal longest
        while not over:
            began = asyncio.get_running_loop().time()
            await reader.fetch("select * from orders")
            longest = max(longest, asyncio.get_running_loop().time() - began)

    reading = asyncio.create_task(read())
    await holder.execute("begin; select * from projectionist.orders__g1")
    with pytest.raises(ReadModelError, match="in use"):
        await live.migrate(grown(live.stream), patience_s=patience_s)
    await holder.execute("commit")
    await live.migrate(grown(live.stream))
    over = True
    await reading
    assert longest < patience_s, "not for as long as it is tried, let alone for as long as somebody reads"
    assert await live.value("select to_regclass('projectionist.orders__g1_carrier') is not null")
    await holder.close()
    await reader.close()


async def test_an_index_is_made_while_batches_are_open(live: ConsumerHarness) -> None:
    await live.migrate(_indexed(live))
    async with batch_drivers(live, _indexed(live)) as (driver,):
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1))
        async with live.pool.acquire() as batch, batch.transaction():
            await batch.execute("update projectionist.indexed__g1 set b = 1")
            migrating = asyncio.create_task(live.migrate(_indexed(live, Index("b"))))
            await live.blocked()
            await driver.settle(driver.read(OrderPlaced("bob", 2), "o2", 1))
        await migrating
    assert await _columns(live) == ["b"]


async def test_a_reset_names_a_foreign_key_on_a_generation(live: ConsumerHarness) -> None:
    orders = shop(live.stream).Orders
    await live.migrate(orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(orders)
    await live.pool.execute("create table mine (id text references projectionist.orders__g1)")
    await live.pool.execute("update projectionist.runners set stopped = clock_timestamp()")
    async with live.connected() as connection:
        resetting = Resetting(connection, live.nats, SCHEMA)
        with pytest.raises(CannotReset, match='"mine" references "orders__g1"'):
            await resetting.reset("Orders", Act("ann", "again"))
    assert len(await live.rows("orders")) == 1


async def test_two_processes_that_migrate_at_once_make_an_index_once(live: ConsumerHarness) -> None:
    await live.migrate(_indexed(live))
    wanted = _indexed(live, Index("a"), Index("b"))
    async with live.pool.acquire() as writer:
        await writer.execute("begin; insert into projectionist.indexed__g1 values ('x')")
        with listening() as heard:
            one = asyncio.create_task(live.migrate(wanted))
            await live.blocked()
            other = asyncio.create_task(live.migrate(wanted))
            await heard.wait("migrate.waiting")
            await writer.execute("commit")
            await asyncio.gather(one, other)
    assert await _columns(live) == ["a", "b"]


async def test_a_reset_waits_for_its_table_as_long_as_others_wait_for_a_lock(live: ConsumerHarness) -> None:
    """Also where it has dropped a kept generation before, which is not waited for."""
    orders = shop(live.stream).Orders
    await live.migrate(orders)
    rebuilds = RebuildHarness(live)
    await rebuilds.rebuild(orders)
    async with live.connected() as connection, connection.transaction():
        before = await connection.fetchval("show lock_timeout")
        await drop(rebuilds.queries(connection), await inspection.view_number(live), 1)
        assert await connection.fetchval("show lock_timeout") == before
