"""What ends a consumer by a refusal gives back what it holds, whichever of its tasks has met the refusal."""

from __future__ import annotations

import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.load import tuned
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.waiting import HANG_S, eventually, listening

from projectionist.runner.process.consumer_worker import ConsumerWorker

pytestmark = pytest.mark.asyncio


def look_for_gaps(worker: ConsumerWorker) -> None:
    """Have the gap fetcher look now, though the one that wakes it every second may be in the batch that hangs."""
    assert worker._serving is not None
    worker._serving._gaps.wake()


@pytest.mark.parametrize("ack", ["after-commit", "after-store"], ids=["by gaps", "by claims"])
async def test_a_batch_open_at_a_refusal_met_beside_it_is_given_back(live: ConsumerHarness, ack: str) -> None:
    s = shop(live.stream)
    tuned(
        live,
        policy={"ack": ack, "ack_wait_s": 5 * HANG_S, "late_s": 3600},
        postgres={"lock_s": HANG_S, "statement_s": HANG_S},
    )
    await live.migrate(s.Orders)
    await live.publish(OrderNoted("behind a gap"), "o1", 3)
    with listening() as heard:
        async with live.connected() as locker, live.running(s.Orders) as (worker,):
            await eventually(lambda: live.value("select head = 'gap' from {s}.positions"))
            await heard.wait("batch.acked")
            async with locker.transaction():
                await locker.execute("lock table projectionist.inbox in share mode")
                await live.publish(OrderPlaced("ann", 1), "o2", 1)
                await live.blocked()
                before = heard.counts["worker.waiting"]
                await live.pool.execute(
                    "update projectionist.consumers set paused = true;"
                    " update projectionist.positions set due = clock_timestamp() where head = 'gap'"
                )
                look_for_gaps(worker)
                await heard.wait("worker.waiting", before + 1)
            await live.pool.execute("update projectionist.consumers set paused = false")
            # Long before the ack wait is over.
            await eventually(lambda: live.value("select count(*) = 1 from orders where order_id = 'o2'"))
