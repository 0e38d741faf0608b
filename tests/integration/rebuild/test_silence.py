"""Where history is folded again nothing is emitted; what nobody has settled yet is emitted exactly once, later."""

from __future__ import annotations

import pytest
from tests.support import inspection
from tests.support.peers import peer_takes
from tests.support.rebuilding import RebuildHarness
from tests.support.shop import OrderPaid, OrderPlaced, shop

pytestmark = pytest.mark.asyncio


async def test_what_live_emits_during_a_build_is_not_emitted_again_by_catching_up(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    async with harness.running(s.Orders):
        await rebuilds.settled(s.Orders)
        async with rebuilds.frozen(s.Orders, "rebuild.bulk_done") as building:
            await harness.publish(OrderPaid(1), "o1", 2)
            await rebuilds.settled(s.Orders)
            effects = await rebuilds.effects()
            assert len(effects.intents) == 1
        rebuilt = await building
        assert (rebuilt.caught_up, rebuilt.silent) == (1, {"Receipt": 1})
    assert await rebuilds.effects() == effects
    assert await harness.rows("orders") == [("o1", "paid", 1, '["placed", "paid"]')]


async def test_a_backlog_from_a_downtime_that_a_rebuild_fell_into_is_emitted_once(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Orders)
    await harness.publish(OrderPaid(1), "o1", 2)
    await harness.publish(OrderPlaced("bob", 1), "o2", 1)
    await harness.publish(OrderPaid(1), "o2", 2)

    rebuilt = await rebuilds.rebuild(s.Orders)

    assert rebuilt.silent == {}
    assert await harness.rows("orders") == [("o1", "placed", 1, '["placed"]')]
    assert await inspection.count_intents(harness) == 0
    await harness.settle(s.Orders)
    assert [row[1] for row in await harness.rows("orders")] == ["paid", "paid"]
    assert await inspection.count_intents(harness) == 2
    await rebuilds.rebuild(s.Orders)
    await harness.settle(s.Orders)
    assert await inspection.count_intents(harness) == 2


async def test_a_gap_that_is_filled_after_the_swap_drains_with_its_effects_once(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.publish(OrderPaid(1), "o1", 3)
    async with harness.running(s.Orders):
        await rebuilds.settled(s.Orders)
        await rebuilds.rebuild(s.Orders)
        assert await inspection.count_intents(harness) == 0
        await harness.publish(OrderPaid(1), "o1", 2)
        await rebuilds.settled(s.Orders)
    assert await harness.rows("orders") == [("o1", "paid", 1, '["placed", "paid", "paid"]')]
    assert await inspection.count_intents(harness) == 2


async def test_versions_that_are_fetched_while_a_build_is_open_are_emitted_once(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Orders)
    await harness.publish(OrderPaid(1), "o1", 2)
    await harness.publish(OrderPaid(1), "o1", 3)
    durable = await inspection.durable_name(harness)
    # A peer took both, and keeps the first one.
    held, other = await peer_takes(harness.nats.jetstream(), harness.stream.name, durable, 2)
    await other.nak()
    async with rebuilds.frozen(s.Orders, "rebuild.bulk_done") as building, harness.running(s.Orders):
        await inspection.reaches(2, inspection.count_intents, harness)
        effects = await rebuilds.effects()
    rebuilt = await building

    assert rebuilt.silent == {"Receipt": 2}
    assert held.metadata.sequence.stream == 2
    assert (await rebuilds.effects()).intents == effects.intents
    assert await harness.rows("orders") == [("o1", "paid", 1, '["placed", "paid", "paid"]')]
    await held.ack()
    await harness.settle(s.Orders)
    assert await inspection.count_intents(harness) == 2


async def test_events_below_the_effects_mark_stay_silent_in_the_new_generation(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream, effects="now")
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.publish(OrderPaid(1), "o1", 2)
    await harness.settle(s.Orders)
    await rebuilds.rebuild(s.Orders)
    await harness.publish(OrderPaid(1), "o1", 3)
    await harness.settle(s.Orders)
    assert await inspection.count_intents(harness) == 1
