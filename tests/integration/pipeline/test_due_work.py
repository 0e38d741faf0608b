"""A long parked run is drained in bounded transactions, one after the other, and its aggregate alone waits."""

from __future__ import annotations

import msgspec
import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.waiting import listening

from projectionist.core.settings.settings import Policy

pytestmark = pytest.mark.asyncio
LIMIT = Policy(drain_batch_size=10, gap_fetch_delay_ms=50, late_s=0)


async def test_a_long_run_is_drained_at_most_k_events_a_transaction_and_the_rest_at_once(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders, policy=LIMIT) as (driver,):
        await driver.settle(*(driver.read(OrderNoted(str(n)), "o1", n) for n in range(2, 37)))
        (filling,) = await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1))

        assert len(filling.writes.unparked) == 10
        assert await live.head(s.Orders, "order/o1") == (11, "draining", 25)
        assert filling.delay == 0
        assert await driver.settle_due() == 3

    assert await live.head(s.Orders, "order/o1") == (36, "clear", 0)
    assert msgspec.json.decode((await live.rows("orders"))[0][3]) == ["placed", *map(str, range(2, 37))]


async def test_what_arrives_in_the_middle_of_a_drain_waits_its_turn(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders, drivers=2, policy=LIMIT) as (driver, other):
        await driver.settle(*(driver.read(OrderNoted(str(n)), "o1", n) for n in range(2, 22)))
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1))
        assert await live.head(s.Orders, "order/o1") == (11, "draining", 10)

        await other.settle(other.read(OrderNoted("22"), "o1", 22), other.read(OrderPlaced("bob", 1), "o2", 1))
        assert await live.head(s.Orders, "order/o1") == (11, "draining", 11)
        assert await live.head(s.Orders, "order/o2") == (1, "clear", 0)
        await driver.settle_due()

    assert await live.head(s.Orders, "order/o1") == (22, "clear", 0)


async def test_two_processes_drain_one_run_without_a_double_or_a_loss(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders, policy=LIMIT) as (driver,):
        await driver.settle(*(driver.read(OrderNoted(str(n)), "o1", n) for n in range(2, 200)))
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    with listening() as heard:
        async with live.running(s.Orders, processes=2, policy=LIMIT):
            await inspection.reaches(199, inspection.head_version, live)

    assert msgspec.json.decode((await live.rows("orders"))[0][3]) == ["placed", *map(str, range(2, 200))]
    assert heard.counts["batch.outage"] == 0


async def test_a_poison_in_a_parked_run_stops_the_drain_there(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("15")
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders, policy=LIMIT) as (driver,):
        await driver.settle(*(driver.read(OrderNoted(str(n)), "o1", n) for n in range(2, 31)))
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1))
        await driver.settle_due()

    assert await live.head(s.Orders, "order/o1") == (14, "waiting", 16)
    assert await live.fetch("select version, cause from {s}.parked order by version limit 2") == [
        (15, "failed"),
        (16, "gap"),
    ]


async def test_a_second_gap_behind_the_first_stops_the_drain_until_it_is_filled_too(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders, policy=LIMIT) as (driver,):
        missing = {1, 13, 20}
        await driver.settle(
            *(driver.read(OrderNoted(str(n)), "o1", n) for n in range(1, 26) if n not in missing)
        )
        stands = []
        for version in sorted(missing):
            event = OrderPlaced("ann", 1) if version == 1 else OrderNoted(str(version))
            await driver.settle(driver.read(event, "o1", version))
            await driver.settle_due()
            stands.append(await live.head(s.Orders, "order/o1"))

    assert stands == [(12, "gap", 11), (19, "gap", 5), (25, "clear", 0)]


async def test_a_follower_does_not_put_off_when_a_gap_is_looked_at(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(driver.read(OrderNoted("x"), "o1", 5))
        due = await inspection.value(live, "positions", "due")
        await driver.settle(driver.read(OrderNoted("x"), "o1", 6))

    assert await inspection.value(live, "positions", "due") == due
