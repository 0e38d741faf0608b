"""A session is warmed up before its first batch: its statements are prepared then, and nothing has happened."""

from __future__ import annotations

import asyncpg
import pytest
from tests.support import inspection
from tests.support.batch_driver import BatchDriver, batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA
from tests.support.several_rows import Placed, several
from tests.support.shop import OrderPlaced, shop
from tests.support.waiting import listening

from projectionist.runner.batch.warm_up import WARM_UPS

pytestmark = pytest.mark.asyncio

WRITTEN = ("inbox", "positions", "counters", "minute_counts", "settled_batches", "intents")
OF_A_FIRST_EVENT = "own_type"
"""The type of aggregate whose ids are keys is put on record once."""


async def prepared(driver: BatchDriver) -> set[str]:
    """What the session has prepared, but for what is asked once in the life of a consumer."""
    store, _ = await driver.session.ready()
    asked = "select statement from pg_prepared_statements"
    rows = await store.connection.fetch(asked)
    found = {row["statement"] for row in rows} - {asked}
    return {text for text in found if OF_A_FIRST_EVENT not in text}


@pytest.mark.parametrize("kind", ["rows of one aggregate", "shared rows and intents"])
async def test_the_first_batch_finds_its_statements_prepared(live: ConsumerHarness, kind: str) -> None:
    shared = kind != "rows of one aggregate"
    view = several(live.stream).Lines if shared else shop(live.stream).Orders
    event = Placed(("a",), (1,)) if shared else OrderPlaced("ann", 1)
    await live.migrate(view)
    async with batch_drivers(live, view) as (driver,):
        await driver.session.warm()
        before = await prepared(driver)
        await driver.settle(driver.read(event, "o1", 1))
        assert await prepared(driver) == before


async def test_a_warm_up_leaves_nothing_behind(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        before = {table: await inspection.count(live, table) for table in WRITTEN}
        await driver.session.warm()
        assert {table: await inspection.count(live, table) for table in WRITTEN} == before
        assert await live.value("select count(*) from orders") == 0


async def test_a_warm_up_waits_for_nobody_who_holds_the_consumer(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    holder = await asyncpg.connect(live.database)
    try:
        async with batch_drivers(live, s.Orders) as (driver,), holder.transaction():
            store, _ = await driver.session.ready()
            await holder.execute(store._sql["lock_consumer_exclusive"], store._barrier)
            with listening() as heard:
                await driver.session.warm()
                await heard.wait("session.warmed")
    finally:
        await holder.close()


async def test_a_connection_has_as_many_warm_ups_as_it_takes_to_keep_a_plan(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        for connections in (1, 2):
            with listening() as heard:
                for _ in range(WARM_UPS + 2):
                    await driver.session.warm()
                await heard.wait("session.warmed", WARM_UPS)
            assert heard.counts["session.warmed"] == WARM_UPS, connections
            await driver.session.close()


async def test_a_warm_up_that_fails_is_left_to_the_batch_that_meets_the_same(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await live.pool.execute(f"alter table {SCHEMA}.positions rename to elsewhere")
        await driver.session.warm()
        assert not driver.session.is_failing
        await live.pool.execute(f"alter table {SCHEMA}.elsewhere rename to positions")
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1))
    assert await live.value("select count(*) from orders") == 1


async def test_an_idle_process_warms_up_the_connection_that_replaces_a_lost_one(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    with listening() as heard:
        async with live.running(s.Orders):
            await heard.wait("session.warmed", 2 * WARM_UPS)
            await live.pool.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name like 'projectionist % Orders'"
            )
            await heard.wait("session.warmed", 4 * WARM_UPS)
