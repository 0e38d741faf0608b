"""Two batches of one consumer open at once, in one process: in order, and never in each other's way."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.waiting import HANG_S

from projectionist.core.settings.settings import BatchLimits as Limits
from projectionist.runner.batch.inbox_store import InboxStore
from projectionist.runner.batch.sequencing import BatchOrder
from projectionist.runner.batch.types import Batch, BatchResult
from projectionist.runner.batch.writes import Again

pytestmark = pytest.mark.asyncio


async def test_batches_open_at_once_meet_the_versions_of_an_aggregate_in_order(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders, drivers=2) as drivers:
        batch_order: BatchOrder | None = None
        tasks: list[asyncio.Task[list[BatchResult]]] = []
        for n in range(1, 41):
            driver = drivers[n % 2]
            event = OrderPlaced("ann", 1) if n == 1 else OrderNoted(str(n))
            batch_order = BatchOrder(batch_order)
            if len(tasks) > 1:
                await tasks[-2]  # each has one connection
            tasks.append(
                asyncio.create_task(driver.settler.settle(Batch([driver.read(event, "o1", n)]), batch_order))
            )
        await asyncio.wait_for(asyncio.gather(*tasks), HANG_S)

    assert await live.head(s.Orders, "order/o1") == (40, "clear", 0)
    assert await live.fetch("select distinct verdict from {s}.inbox") == [("next",)], "nothing was parked"


async def test_a_batch_that_is_rolled_back_does_not_wait_for_what_the_next_one_has_claimed(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both hold one identity: the second gets it when the first is rolled back, and the first wants it again."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    place, rolled_back = InboxStore.place, False

    async def stumbling(store: InboxStore, *arguments: Any) -> None:
        nonlocal rolled_back
        if not rolled_back:
            await live.value_of(
                "select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock'", True
            )
            rolled_back = True
            raise Again("the test wants it")
        await place(store, *arguments)

    monkeypatch.setattr(InboxStore, "place", stumbling)
    async with batch_drivers(live, s.Orders, drivers=2) as (one, other):
        first = BatchOrder()
        settling = (
            one.settler.settle(Batch([one.read(OrderPlaced("ann", 1), "o1", 1, seq=1001)]), first),
            other.settler.settle(
                Batch([other.read(OrderPlaced("ann", 1), "o1", 1, seq=1002)]), BatchOrder(first)
            ),
        )
        await asyncio.wait_for(asyncio.gather(*settling), HANG_S)

    assert await live.head(s.Orders, "order/o1") == (1, "clear", 0)
    # Whichever wakes first has it: the other is its repeat.
    settled = await live.fetch("select seq from {s}.inbox union all select seq from {s}.duplicates")
    assert sorted(settled) == [(1001,), (1002,)]
    assert await inspection.count_inbox(live) == 1


async def test_a_backlog_in_small_batches_is_applied_in_order_without_a_gap(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    for n in range(1, 61):
        for order in ("o1", "o2", "o3"):
            event = OrderPlaced("ann", 1) if n == 1 else OrderNoted(str(n))
            await live.publish(event, order, n)

    await live.settle(s.Orders, limits=Limits(max_rows=5))

    for row in await live.rows("orders"):
        assert msgspec.json.decode(row[3]) == ["placed", *map(str, range(2, 61))]
    assert await live.fetch("select distinct verdict from {s}.inbox") == [("next",)], "nothing was parked"
    assert await live.unaccounted(s.Orders) == []
