"""Which row an event belongs to, and who else may write it."""

from __future__ import annotations

import asyncio

import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers, stalled
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPlaced, shop

pytestmark = pytest.mark.asyncio


async def test_aggregates_of_two_types_do_not_share_a_row_because_their_ids_are_alike(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 500), "7", 1, id="a")
    await live.settle(s.Orders)
    await live.publish(OrderPlaced("bob", 900), "7", 1, id="b", headers={"ce-aggregatetype": "customer"})

    async with live.running(s.Orders):
        await live.settled(s.Orders)

    assert await live.rows("orders") == [("7", "placed", 500, '["placed"]')]
    assert await live.head(s.Orders, "customer/7") == (0, "waiting", 1)
    error = await inspection.parked_error(live)
    assert "is the id of aggregates of type 'order'" in error
    assert await live.unaccounted(s.Orders) == []


async def test_an_event_that_fails_does_not_make_its_type_the_one_whose_ids_are_keys(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    stranger = {"ce-aggregatetype": "customer"}
    await live.publish(OrderNoted("bad"), "7", 1, id="a", headers=stranger)
    await live.settle(s.Orders)
    assert await inspection.own_type(live) is None

    await live.publish(OrderNoted("bad"), "8", 1, id="b", headers=stranger)
    await live.publish(OrderPlaced("ann", 500), "7", 1, id="c")
    await live.settle(s.Orders)

    assert await live.rows("orders") == [("7", "placed", 500, '["placed"]')]
    assert await inspection.own_type(live) == "order"
    assert await live.head(s.Orders, "customer/7") == (0, "waiting", 1)


async def test_the_events_of_one_type_count_where_those_of_another_fail_in_the_same_batch(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        strangers = [driver.read(OrderNoted("bad"), f"{n}", 1, kind="customer") for n in range(2)]
        await driver.settle(*strangers, driver.read(OrderPlaced("ann", 500), "7", 1))

    assert await live.rows("orders") == [("7", "placed", 500, '["placed"]')]
    assert await inspection.own_type(live) == "order"


async def test_of_two_types_in_one_batch_the_one_that_the_stream_has_first_stays(
    live: ConsumerHarness,
) -> None:
    """Not the one whose name comes first: one event without a type would have all others fail."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        right = [driver.read(OrderPlaced("ann", n), f"z{n}", 1, id=f"e{n}") for n in range(5)]
        await driver.settle(*right, driver.read(OrderPlaced("bob", 9), "last", 1, id="x2", kind=""))

    assert len(await live.rows("orders")) == 5
    assert await inspection.own_type(live) == "order"
    error = await inspection.parked_error(live)
    assert error.startswith(
        "column 'order_id' is the id of aggregates of type 'order', decided by event e0 of shop"
    )
    assert f"(sequence {right[0].seq}); this event is of an aggregate of type ''" in error
    assert "set aggregate_type of the consumer, and reset it" in error


async def test_who_comes_later_is_told_which_event_has_decided(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await live.publish(OrderPlaced("bob", 9), "7", 1, id="x2", headers={"ce-aggregatetype": ""})
    await live.settle(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "8", 1)
    await live.settle(s.Orders)

    error = await inspection.parked_error(live)
    assert (
        f"of type '', decided by event x2 of shop (sequence {seq}); this event is of an aggregate of type 'order'"
        in error
    )


async def test_of_two_types_that_come_first_at_once_one_wins_and_the_other_fails(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders, 2) as (one, other):
        reached, go_on = stalled(one)
        first = asyncio.create_task(one.settle(one.read(OrderPlaced("ann", 1), "7", 1)))
        await reached.wait()
        second = asyncio.create_task(other.settle(other.read(OrderPlaced("bob", 2), "7", 1, kind="customer")))
        await live.blocked()
        go_on.set()
        await asyncio.gather(first, second)

    assert await live.rows("orders") == [("7", "placed", 1, '["placed"]')]
    assert await live.head(s.Orders, "customer/7") == (0, "waiting", 1)
