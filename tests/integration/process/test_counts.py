"""What waits is counted where it is parked: a row a change, which processes add up now and then."""

from __future__ import annotations

import asyncio

import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.runner.consumers import status

pytestmark = pytest.mark.asyncio


async def rows(live: ConsumerHarness) -> tuple[int, int]:
    """How many rows what waits is counted in: aggregates, and events."""
    return await inspection.count(live, "held_counts"), await inspection.count(live, "parked_counts")


async def waiting(live: ConsumerHarness) -> tuple[dict[str, int], int, int]:
    """What the status says of the one consumer: heads, parked, backlog."""
    async with live.pool.acquire() as connection:
        [one] = await status.consumers(connection, "projectionist", outcomes=False)
    return one.heads, one.parked, one.backlog


async def test_what_waits_is_told_without_counting_it(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1), driver.read(OrderPaid(), "o1", 3))
        assert await waiting(live) == ({"gap": 1}, 1, 0)
        for order in ("o2", "o3"):
            await driver.settle(driver.read(OrderPlaced("ann", 1), order, 1))
            await driver.settle(driver.read(OrderNoted("bad"), order, 2), driver.read(OrderPaid(), order, 3))
        heads, parked, _ = await waiting(live)
        assert (sum(heads.values()), parked) == (3, 5)
        await driver.settle(driver.read(OrderNoted("fine"), "o1", 2))
        heads, parked, _ = await waiting(live)
        assert ("gap" in heads, parked) == (False, 4)


async def test_many_rows_are_added_up_while_others_count_on(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        for number in range(60):
            await driver.settle(driver.read(OrderPaid(), f"o{number}", 2))
        assert await rows(live) == (60, 60)
        beside = driver.settle(driver.read(OrderPaid(), "o60", 2))
        merges = (live.access.merge_counts(driver.consumer, anew=anew) for anew in (False, True, False))
        await asyncio.gather(beside, *merges)
        assert await waiting(live) == ({"gap": 61}, 61, 0)
        await live.access.merge_counts(driver.consumer, anew=True)
        assert await rows(live) == (1, 1)
        assert await waiting(live) == ({"gap": 61}, 61, 0)


async def test_what_a_process_of_an_older_release_did_not_count_is_counted_anew(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(driver.read(OrderPaid(), "o1", 2))
        await live.fetch("truncate {s}.held_counts, {s}.parked_counts")
        assert await waiting(live) == ({}, 0, 0)
        await live.access.merge_counts(driver.consumer, anew=True)
        assert await waiting(live) == ({"gap": 1}, 1, 0)


async def test_minutes_are_written_over_after_an_hour(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(*(driver.read(OrderPlaced("ann", 1), f"o{n}", 1) for n in range(3)))
        await live.fetch(
            "update {s}.minute_counts set minute = minute - interval '1 minute', place = (place + 59) % 60"
        )
        async with live.pool.acquire() as connection:
            [hour] = (await status.minutes(connection, "projectionist", "Orders")).values()
            assert (len(hour.applied), max(hour.applied[-3:]), sum(hour.applied)) == (60, 3, 3)
        await live.fetch(
            "update {s}.minute_counts set minute = date_trunc('minute', clock_timestamp()) - interval '1 hour',"
            " place = extract(minute from clock_timestamp() at time zone 'UTC')"
        )
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o9", 1))
    assert min(await inspection.rows(live, "minute_counts", "applied")) == (1,)
