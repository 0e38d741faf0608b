"""Heads of aggregates whose state has changed its meaning on the way, and verbs on the event they mean."""

from __future__ import annotations

import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.operator import Act

pytestmark = pytest.mark.asyncio
ACT = Act("ops", "the test wants it")

FOUND_LOST = "update projectionist.positions set head = 'waiting', finding = 'lost', due = null"


async def test_a_missing_version_that_comes_and_fails_is_a_failed_head_and_no_gap_any_more(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1), driver.read(OrderPaid(), "o1", 3))
        await live.pool.execute(FOUND_LOST)
        await live.count_anew()
        await driver.settle(driver.read(OrderNoted("bad"), "o1", 2))

        assert await inspection.rows(live, "positions", "head", "finding") == [("waiting", None)]
        async with live.verbs(s.Orders) as verbs:
            await verbs.skip("order/o1", ACT)
        await driver.settle_due()

    assert await live.head(s.Orders, "order/o1") == (3, "clear", 0)


async def test_monotonic_order_tries_nothing_behind_a_missing_version_that_came_and_failed(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream, sequence="monotonic")
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1))
        await live.pool.execute(FOUND_LOST)
        await live.count_anew()
        await driver.settle(driver.read(OrderNoted("bad"), "o1", 2))
        await driver.settle(driver.read(OrderPaid(), "o1", 3))

    assert await live.head(s.Orders, "order/o1") == (1, "waiting", 2)
    assert await inspection.rows(live, "parked", "version", "attempts", order="version") == [(2, 1), (3, 0)]


async def test_a_gap_that_was_found_lost_keeps_its_finding_while_more_arrives_behind_it(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(driver.read(OrderPaid(), "o1", 3))
        await live.pool.execute(FOUND_LOST)
        await live.count_anew()
        await driver.settle(driver.read(OrderPaid(), "o1", 4))

    assert await inspection.rows(live, "positions", "head", "finding", "parked") == [("waiting", "lost", 2)]


async def test_skip_means_the_event_that_failed_also_where_an_earlier_one_came_after_it(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream, sequence="monotonic")
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(
            driver.read(OrderPlaced("ann", 1), "o1", 1), driver.read(OrderNoted("bad"), "o1", 5, id="failed")
        )
        await driver.settle(driver.read(OrderNoted("good"), "o1", 4, id="blocked"))
        async with live.verbs(s.Orders) as verbs:
            await verbs.skip("order/o1", ACT)
        await driver.settle_due()

    assert await live.states(s.Orders) == {"o1:1": "applied", "failed": "skipped", "blocked": "applied"}
    assert await live.rows("orders") == [("o1", "placed", 1, '["placed", "good"]')]
    assert await live.head(s.Orders, "order/o1") == (4, "clear", 0)


async def test_an_edited_failure_is_tried_at_once_though_an_earlier_event_came_after_it(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream, sequence="monotonic")
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(driver.read(OrderNoted("bad"), "o1", 5, id="failed"))
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 4, id="blocked"))
        async with live.verbs(s.Orders) as verbs:
            await verbs.edit(("shop", "failed"), b'{"text": "good"}', b"digest", ACT)
        await driver.settle_due()

    assert await live.rows("orders") == [("o1", "placed", 1, '["placed", "good"]')]
