"""One transaction stays small enough to be finished, however much became ready at once."""

from __future__ import annotations

import pytest
from tests.support.crew import crew
from tests.support.rig import Rig
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.waiting import listening

from projectionist.runner import apply

pytestmark = pytest.mark.asyncio


async def test_many_heads_that_go_on_at_once_share_what_one_transaction_drains(
    live: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each alone may drain its run; together they would outlast the session's patience, again and again."""
    monkeypatch.setattr(apply, "DRAIN_EVENTS", 6)
    s = shop(live.stream)
    await live.migrate(s.Orders)
    orders = ("o1", "o2", "o3")
    async with crew(live, s.Orders) as (hand,):
        parked = [hand.read(OrderNoted(f"n{v}"), o, v) for o in orders for v in range(2, 8)]
        await hand.settle(*parked)
        (applied,) = await hand.settle(*(hand.read(OrderPlaced("ann", 1), o, 1) for o in orders))

        assert len(applied.writes.unparked) == 6
        assert [await live.head(s.Orders, f"order/{o}") for o in orders] == [(3, "draining", 4)] * 3
        with listening() as heard:
            await hand.settle_due()
        assert heard.counts["batch.committed"] == 2

    assert [row[3] for row in await live.rows("orders")] == [
        '["placed", "n2", "n3", "n4", "n5", "n6", "n7"]'
    ] * 3
