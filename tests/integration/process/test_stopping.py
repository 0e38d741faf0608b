"""A process that was told to stop brings to an end what has begun, whatever ends one of its consumers meanwhile."""

from __future__ import annotations

import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.load import tuned
from tests.support.shop import OrderPlaced, shop
from tests.support.waiting import listening

pytestmark = pytest.mark.asyncio

WAITING = (
    "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
)


async def test_newer_code_of_one_consumer_lets_the_others_finish_while_the_process_stops(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    tuned(live, postgres={"lock_s": 1})
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders, s.Spend)
    stranger = await live.own_connection()
    try:
        with listening() as heard:
            async with live.running(s.Orders, s.Spend, supervised=True) as workers:
                await heard.wait("worker.running", 2)
                await stranger.execute(
                    "begin; lock table projectionist.orders__g1, projectionist.spend__g1 in exclusive mode"
                )
                await live.publish(OrderPlaced("ann", 1), "o2", 1)
                await live.value_of(WAITING, 2)
                for worker in workers:
                    worker.stop()
                await live.pool.execute("update projectionist.views set code = '' where name = 'Orders'")
                await heard.wait("worker.ended")
                await stranger.execute("rollback")
    finally:
        await stranger.close()

    assert await live.rows("spend") == [("ann", 2, 2)]
