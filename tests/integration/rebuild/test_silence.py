"""Where history is folded again nothing is emitted; what nobody has settled yet is emitted exactly once, later."""

from __future__ import annotations

import pytest
from tests.support.rebuilding import Yard
from tests.support.shop import OrderPaid, OrderPlaced, shop

pytestmark = pytest.mark.asyncio


async def test_what_live_emits_during_a_build_is_not_emitted_again_by_catching_up(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders)
    await rig.publish(OrderPlaced("ann", 1), "o1", 1)
    async with rig.running(s.Orders):
        await yard.settled(s.Orders)
        async with yard.frozen(s.Orders, "rebuild.bulk_done") as building:
            await rig.publish(OrderPaid(1), "o1", 2)
            await yard.settled(s.Orders)
            effects = await yard.effects()
            assert len(effects.intents) == 1
        rebuilt = await building
        assert (rebuilt.caught_up, rebuilt.silent) == (1, {"Receipt": 1})
    assert await yard.effects() == effects
    assert await rig.rows("orders") == [("o1", "paid", 1, '["placed", "paid"]')]


async def test_a_backlog_from_a_downtime_that_a_rebuild_fell_into_is_emitted_once(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders)
    await rig.publish(OrderPlaced("ann", 1), "o1", 1)
    await rig.settle(s.Orders)
    await rig.publish(OrderPaid(1), "o1", 2)
    await rig.publish(OrderPlaced("bob", 1), "o2", 1)
    await rig.publish(OrderPaid(1), "o2", 2)

    rebuilt = await yard.rebuild(s.Orders)

    assert rebuilt.silent == {}
    assert await rig.rows("orders") == [("o1", "placed", 1, '["placed"]')]
    assert await rig.value("select count(*) from {s}.intents") == 0
    await rig.settle(s.Orders)
    assert [row[1] for row in await rig.rows("orders")] == ["paid", "paid"]
    assert await rig.value("select count(*) from {s}.intents") == 2
    await yard.rebuild(s.Orders)
    await rig.settle(s.Orders)
    assert await rig.value("select count(*) from {s}.intents") == 2


async def test_a_gap_that_is_filled_after_the_swap_drains_with_its_effects_once(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders)
    await rig.publish(OrderPlaced("ann", 1), "o1", 1)
    await rig.publish(OrderPaid(1), "o1", 3)
    async with rig.running(s.Orders):
        await yard.settled(s.Orders)
        await yard.rebuild(s.Orders)
        assert await rig.value("select count(*) from {s}.intents") == 0
        await rig.publish(OrderPaid(1), "o1", 2)
        await yard.settled(s.Orders)
    assert await rig.rows("orders") == [("o1", "paid", 1, '["placed", "paid", "paid"]')]
    assert await rig.value("select count(*) from {s}.intents") == 2


async def test_versions_that_are_fetched_while_a_build_is_open_are_emitted_once(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders)
    await rig.publish(OrderPlaced("ann", 1), "o1", 1)
    await rig.settle(s.Orders)
    await rig.publish(OrderPaid(1), "o1", 2)
    await rig.publish(OrderPaid(1), "o1", 3)
    durable = await rig.value("select durable from {s}.consumers")
    peer = await rig.nats.jetstream().pull_subscribe("", durable=durable, stream=rig.stream.name)
    held, other = await peer.fetch(2)  # a peer took both, and keeps the first one
    await other.nak()
    async with yard.frozen(s.Orders, "rebuild.bulk_done") as building, rig.running(s.Orders):
        await rig.value_of("select count(*) from {s}.intents", 2)
        effects = await yard.effects()
    rebuilt = await building

    assert rebuilt.silent == {"Receipt": 2}
    assert held.metadata.sequence.stream == 2
    assert (await yard.effects()).intents == effects.intents
    assert await rig.rows("orders") == [("o1", "paid", 1, '["placed", "paid", "paid"]')]
    await held.ack()
    await rig.settle(s.Orders)
    assert await rig.value("select count(*) from {s}.intents") == 2


async def test_events_below_the_effects_mark_stay_silent_in_the_new_generation(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream, effects="now")
    await rig.migrate(s.Orders)
    await rig.publish(OrderPlaced("ann", 1), "o1", 1)
    await rig.publish(OrderPaid(1), "o1", 2)
    await rig.settle(s.Orders)
    await yard.rebuild(s.Orders)
    await rig.publish(OrderPaid(1), "o1", 3)
    await rig.settle(s.Orders)
    assert await rig.value("select count(*) from {s}.intents") == 1
