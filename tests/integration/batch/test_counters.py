"""Counters say how many events, not how many deliveries: what comes again has been counted."""

from __future__ import annotations

import pytest
from tests.support import inspection
from tests.support.batch_driver import BatchDriver, arrival, batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderPaid, OrderPlaced, shop

from projectionist.runner.batch import counted_types
from projectionist.runner.decoding.delivery import Unreadable

pytestmark = pytest.mark.asyncio

COUNTED = "select outcome, sum(n)::int from {s}.counters where outcome <> 'redelivered' group by 1 order by 1"


def unreadable(driver: BatchDriver, live: ConsumerHarness, seq: int, *, delivered: int = 1) -> Unreadable:
    """An arrival without a type."""
    found = driver.consumer.reader.read(
        arrival(live.stream.subject("order", "o1"), {"ce-id": "x"}, b"{}", seq, delivered=delivered)
    )
    assert isinstance(found, Unreadable)
    return found


async def test_what_cannot_be_read_counts_once_however_often_it_comes(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        for delivered in (1, 2):
            twice = [unreadable(driver, live, 7, delivered=delivered) for _ in range(2)]
            await driver.settle(unreadable=twice)

    assert await inspection.count_quarantined(live) == 1
    assert await live.fetch(COUNTED) == [("quarantined", 1)]


async def test_a_repeat_counts_once_however_often_it_comes(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1, id="a", seq=1))
        for delivered in (1, 2):
            await driver.settle(
                driver.read(OrderPlaced("ann", 1), "o1", 1, id="a", seq=2, delivered=delivered)
            )

    assert await inspection.count_duplicates(live) == 1
    assert await live.fetch(COUNTED) == [("applied", 1), ("duplicate", 1)]


async def test_a_contradiction_counts_once_however_often_it_comes(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1, id="a", seq=1))
        for delivered in (1, 2):
            await driver.settle(
                driver.read(OrderPlaced("bob", 2), "o1", 1, id="a", seq=2, delivered=delivered)
            )

    assert await live.fetch(COUNTED) == [
        ("applied", 1),
        ("incident_identity_reuse", 1),
        ("quarantined", 1),
    ]


async def test_a_second_claimant_of_a_parked_version_is_counted_as_that_alone(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(driver.read(OrderPaid(), "o1", 3, id="a"))
        await driver.settle(driver.read(OrderPaid(1), "o1", 3, id="b"))

    assert await live.fetch(COUNTED) == [
        ("incident_version_reuse", 1),
        ("parked_gap", 1),
        ("quarantined", 1),
    ]
    assert await live.head(s.Orders, "order/o1") == (0, "gap", 1)


async def test_rows_of_counters_do_not_grow_with_the_types_that_strangers_think_of(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counted_types, "MOST", 3)
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    for number in range(20):
        await live.publish(OrderPaid(), "o1", number + 2, headers={"ce-type": f"strange.{number}"})
    await live.settle(s.Orders)

    counted = dict(await live.fetch("select type, sum(n)::int from {s}.counters group by 1"))
    assert counted.pop("order.placed") == 1
    assert len(counted) == 4
    assert counted["other"] == 17
    assert sum(counted.values()) == 20
