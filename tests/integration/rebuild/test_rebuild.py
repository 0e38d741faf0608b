"""A rebuild beside the live system: the same rows, no effects, and the next event goes on from there."""

from __future__ import annotations

import pytest
from tests.support import inspection
from tests.support.rebuilding import RebuildHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.operator import Act

pytestmark = pytest.mark.asyncio


async def test_a_rebuilt_generation_has_the_rows_of_the_live_one_and_no_effect_is_made(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders, s.Spend)
    for n in range(30):
        await harness.publish(OrderPlaced("ann" if n % 3 else "bob", 100 + n), f"o{n}", 1)
        await harness.publish(OrderPaid(5), f"o{n}", 2)
    await harness.settle(s.Orders, s.Spend)
    orders, spend, effects = (
        await harness.rows("orders"),
        await harness.rows("spend"),
        await rebuilds.effects(),
    )

    rebuilt = await rebuilds.rebuild(s.Orders)
    shared = await rebuilds.rebuild(s.Spend)

    assert await harness.rows("orders") == orders
    assert await harness.rows("spend") == spend
    assert await rebuilds.effects() == effects
    assert (rebuilt.views[0].generation, rebuilt.events, rebuilt.views[0].compared.rows) == (2, 60, 30)
    assert rebuilt.silent == {"Receipt": 30}
    assert shared.views[0].compared.differences == []


async def test_live_goes_on_in_the_new_generation(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 500), "o1", 1)
    async with harness.running(s.Orders):
        await rebuilds.settled(s.Orders)
        await rebuilds.rebuild(s.Orders)
        await harness.publish(OrderPaid(500), "o1", 2)
        await rebuilds.settled(s.Orders)

    assert await rebuilds.generation(s.Orders) == 2
    assert await harness.rows("orders") == [("o1", "paid", 500, '["placed", "paid"]')]
    assert await harness.fetch("select order_id, status from {s}.orders__g1") == [("o1", "placed")]
    assert await inspection.count_intents(harness) == 1


async def test_a_rebuild_folds_no_parked_events_and_they_drain_with_effects_after_the_swap(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    s.trouble.poison.add("bad")
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 500), "o1", 1)
    await harness.publish(OrderNoted("bad"), "o1", 2)
    await harness.publish(OrderPaid(500), "o1", 3)
    await harness.settle(s.Orders)
    assert await harness.head(s.Orders, "order/o1") == (1, "waiting", 2)
    s.trouble.poison.clear()

    await rebuilds.rebuild(s.Orders)

    assert await harness.rows("orders") == [("o1", "placed", 500, '["placed"]')]
    assert await inspection.count_intents(harness) == 0
    async with harness.running(s.Orders):
        async with harness.verbs(s.Orders) as verbs:
            await verbs.retry("order/o1", Act("me", "mended"))
        await rebuilds.settled(s.Orders)
    assert await harness.rows("orders") == [("o1", "paid", 500, '["placed", "bad", "paid"]')]
    assert await inspection.count_intents(harness) == 1
