"""Which row an event belongs to, and who else may write it."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.crew import crew, stalled
from tests.support.rig import Rig
from tests.support.shop import OrderNoted, OrderPlaced, shop

pytestmark = pytest.mark.asyncio


async def test_aggregates_of_two_types_do_not_share_a_row_because_their_ids_are_alike(live: Rig) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 500), "7", 1, id="a")
    await live.settle(s.Orders)
    await live.publish(OrderPlaced("bob", 900), "7", 1, id="b", headers={"ce-aggregatetype": "customer"})

    async with live.running(s.Orders):
        await live.settled(s.Orders)

    assert await live.rows("orders") == [("7", "placed", 500, '["placed"]')]
    assert await live.head(s.Orders, "customer/7") == (0, "waiting", 1)
    error = await live.value("select error from {s}.parked")
    assert "is the id of aggregates of type 'order'" in error
    assert await live.unaccounted(s.Orders) == []


async def test_an_event_that_fails_does_not_make_its_type_the_one_whose_ids_are_keys(live: Rig) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    stranger = {"ce-aggregatetype": "customer"}
    await live.publish(OrderNoted("bad"), "7", 1, id="a", headers=stranger)
    await live.settle(s.Orders)
    assert await live.value("select own_type from {s}.consumers") is None

    await live.publish(OrderNoted("bad"), "8", 1, id="b", headers=stranger)
    await live.publish(OrderPlaced("ann", 500), "7", 1, id="c")
    await live.settle(s.Orders)

    assert await live.rows("orders") == [("7", "placed", 500, '["placed"]')]
    assert await live.value("select own_type from {s}.consumers") == "order"
    assert await live.head(s.Orders, "customer/7") == (0, "waiting", 1)


async def test_the_events_of_one_type_count_where_those_of_another_fail_in_the_same_batch(live: Rig) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    async with crew(live, s.Orders) as (hand,):
        strangers = [hand.read(OrderNoted("bad"), f"{n}", 1, kind="customer") for n in range(2)]
        await hand.settle(*strangers, hand.read(OrderPlaced("ann", 500), "7", 1))

    assert await live.rows("orders") == [("7", "placed", 500, '["placed"]')]
    assert await live.value("select own_type from {s}.consumers") == "order"


async def test_of_two_types_that_come_first_at_once_one_wins_and_the_other_fails(live: Rig) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with crew(live, s.Orders, 2) as (one, other):
        reached, go_on = stalled(one)
        first = asyncio.create_task(one.settle(one.read(OrderPlaced("ann", 1), "7", 1)))
        await reached.wait()
        second = asyncio.create_task(other.settle(other.read(OrderPlaced("bob", 2), "7", 1, kind="customer")))
        await live.blocked()
        go_on.set()
        await asyncio.gather(first, second)

    assert await live.rows("orders") == [("7", "placed", 1, '["placed"]')]
    assert await live.head(s.Orders, "customer/7") == (0, "waiting", 1)
