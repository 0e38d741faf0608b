"""Which row an event belongs to, and who else may write it."""

from __future__ import annotations

import pytest
from tests.support.rig import Rig
from tests.support.shop import OrderPlaced, shop

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
