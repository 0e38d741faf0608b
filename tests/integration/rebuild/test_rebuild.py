"""A rebuild beside the live system: the same rows, no effects, and the next event goes on from there."""

from __future__ import annotations

import pytest
from tests.support.rebuilding import Yard
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.operator import Act

pytestmark = pytest.mark.asyncio


async def test_a_rebuilt_generation_has_the_rows_of_the_live_one_and_no_effect_is_made(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders, s.Spend)
    for n in range(30):
        await rig.publish(OrderPlaced("ann" if n % 3 else "bob", 100 + n), f"o{n}", 1)
        await rig.publish(OrderPaid(5), f"o{n}", 2)
    await rig.settle(s.Orders, s.Spend)
    orders, spend, effects = await rig.rows("orders"), await rig.rows("spend"), await yard.effects()

    rebuilt = await yard.rebuild(s.Orders)
    shared = await yard.rebuild(s.Spend)

    assert await rig.rows("orders") == orders
    assert await rig.rows("spend") == spend
    assert await yard.effects() == effects
    assert (rebuilt.generation, rebuilt.events, rebuilt.rows) == (2, 60, 30)
    assert rebuilt.silent == {"Receipt": 30}
    assert shared.compared.differences == []


async def test_live_goes_on_in_the_new_generation(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders)
    await rig.publish(OrderPlaced("ann", 500), "o1", 1)
    async with rig.running(s.Orders):
        await yard.settled(s.Orders)
        await yard.rebuild(s.Orders)
        await rig.publish(OrderPaid(500), "o1", 2)
        await yard.settled(s.Orders)

    assert await yard.generation(s.Orders) == 2
    assert await rig.rows("orders") == [("o1", "paid", 500, '["placed", "paid"]')]
    assert await rig.fetch("select order_id, status from {s}.orders__g1") == [("o1", "placed")]
    assert await rig.value("select count(*) from {s}.intents") == 1


async def test_what_live_has_parked_is_not_folded_and_drains_with_its_effects_after_the_swap(
    yard: Yard,
) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    s.trouble.poison.add("bad")
    await rig.migrate(s.Orders)
    await rig.publish(OrderPlaced("ann", 500), "o1", 1)
    await rig.publish(OrderNoted("bad"), "o1", 2)
    await rig.publish(OrderPaid(500), "o1", 3)
    await rig.settle(s.Orders)
    assert await rig.head(s.Orders, "order/o1") == (1, "waiting", 2)
    s.trouble.poison.clear()

    await yard.rebuild(s.Orders)

    assert await rig.rows("orders") == [("o1", "placed", 500, '["placed"]')]
    assert await rig.value("select count(*) from {s}.intents") == 0
    async with rig.running(s.Orders):
        async with rig.verbs(s.Orders) as verbs:
            await verbs.retry("order/o1", Act("me", "mended"))
        await yard.settled(s.Orders)
    assert await rig.rows("orders") == [("o1", "paid", 500, '["placed", "bad", "paid"]')]
    assert await rig.value("select count(*) from {s}.intents") == 1
