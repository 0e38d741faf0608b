"""Handlers may take as long as they want: the build lease is kept, other tasks go on, and what is folded is kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from tests.support.rebuilding import RebuildHarness
from tests.support.servers import Stream
from tests.support.shop import OrderPlaced
from tests.support.waiting import listening

from projectionist.core import testpoints
from projectionist.core.retry_policy import RetryPolicy
from projectionist.projections import Projection, on
from projectionist.runner.database.queries import BuildLost
from projectionist.runner.history import fold_pace
from projectionist.runner.rebuild.times import RebuildTimes

pytestmark = pytest.mark.asyncio


def slow(stream: Stream, work: Callable[[int], None]) -> type:
    """A table of orders; `work` is done with the cents of each while its handler holds the event loop."""

    class Slow(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="slow",
        key="order_id",
    ):
        order_id: str
        n: int = 0

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            work(event.cents)
            self.n += 1

    return Slow


async def filled(rebuilds: RebuildHarness, cls: type, orders: int) -> None:
    await rebuilds.harness.migrate(cls)
    await rebuilds.harness.publish_all([(OrderPlaced("ann", n), f"o{n}", 1, f"e{n}") for n in range(orders)])
    await rebuilds.harness.settle(cls)


async def test_a_handler_that_takes_longer_than_the_turn_lasts_loses_nothing(
    rebuilds: RebuildHarness,
) -> None:
    takes_s = 0.0
    cls = slow(rebuilds.harness.stream, lambda cents: time.sleep(takes_s if cents == 3 else 0))
    await filled(rebuilds, cls, 5)
    takes_s = 2.5

    await rebuilds.rebuild(cls, times=RebuildTimes(lease_s=1.0, renewed_s=0.1))
    assert await rebuilds.generation(cls) == 2


async def test_a_turn_that_ran_out_and_that_nobody_else_took_is_taken_again(
    rebuilds: RebuildHarness,
) -> None:
    cls = slow(rebuilds.harness.stream, lambda _: None)
    await filled(rebuilds, cls, 5)
    with listening() as heard:
        async with rebuilds.reading(cls, times=RebuildTimes(renewed_s=0.05)) as building:
            await rebuilds.moments_pass()
            await heard.wait("build_lease.again")
        assert (await building).views[0].generation == 2


async def test_a_turn_that_somebody_else_had_meanwhile_ends_the_build_and_names_him(
    rebuilds: RebuildHarness,
) -> None:
    cls = slow(rebuilds.harness.stream, lambda _: None)
    await filled(rebuilds, cls, 5)
    async with rebuilds.reading(cls, times=RebuildTimes(renewed_s=0.05)) as building:
        await rebuilds.harness.pool.execute(
            "update projectionist.leases set epoch = epoch + 1, owner = 'elsewhere pid 7',"
            " expires_at = clock_timestamp() where name like 'build:%'"
        )
        with pytest.raises(BuildLost, match="elsewhere pid 7 took the build lease"):
            await building


async def test_other_tasks_have_their_turn_while_slow_handlers_fold(rebuilds: RebuildHarness) -> None:
    """Counted in events, not in seconds: between two turns of another task only a slice of them is folded."""
    stretches, took_s = [0], 0.0

    def work(_: int) -> None:
        stretches[-1] += 1
        time.sleep(took_s)

    async def tick() -> None:
        while True:
            stretches.append(0)
            await asyncio.sleep(0)

    cls = slow(rebuilds.harness.stream, work)
    await filled(rebuilds, cls, 500)
    took_s, stretches = 0.002, [0]
    ticking = asyncio.create_task(tick())
    await rebuilds.rebuild(cls)
    ticking.cancel()

    assert sum(stretches) >= 500
    assert max(stretches) <= fold_pace.SLICE_S / took_s + 1


async def test_a_bulk_that_takes_minutes_is_kept_in_parts_and_an_interruption_costs_one(
    rebuilds: RebuildHarness,
) -> None:
    calls, took_s = 0, 0.0

    def work(_: int) -> None:
        nonlocal calls
        calls += 1
        time.sleep(took_s)

    cls = slow(rebuilds.harness.stream, work)
    await filled(rebuilds, cls, 300)
    rows = await rebuilds.harness.rows("slow")
    took_s = 0.003
    flushed = 0

    def die(name: str) -> None:
        nonlocal flushed
        flushed += name == "rebuild.flushed"
        if flushed == 3:
            raise RuntimeError("the process is gone")

    with listening() as heard:
        stop = testpoints.listen(die)
        with pytest.raises(RuntimeError):
            await rebuilds.rebuild(cls, times=RebuildTimes(kept_s=0.1))
        stop()
        assert heard.counts["rebuild.divided"] == 1
        took_s, calls = 0.0, 0
        assert (await rebuilds.rebuild(cls)).resumed
    assert 0 < calls < 300, "what was in the new tables is not folded again"
    assert await rebuilds.harness.rows("slow") == rows


async def test_slow_handlers_catch_up_in_small_transactions_that_fit_under_the_barrier(
    rebuilds: RebuildHarness,
) -> None:
    times = RebuildTimes(holds=RetryPolicy(initial_s=0.4, maximum_s=10.0))  # ends on a slow machine too
    took_s = 0.0
    cls = slow(rebuilds.harness.stream, lambda _: time.sleep(took_s))
    await filled(rebuilds, cls, 10)
    with listening() as heard:
        async with rebuilds.harness.running(cls):
            async with rebuilds.frozen(cls, "rebuild.bulk_done", times=times) as building:
                await rebuilds.harness.publish_all(
                    [(OrderPlaced("bob", n), f"p{n}", 1, f"p{n}") for n in range(400)]
                )
                await rebuilds.settled(cls)
                took_s = 0.004
            rebuilt = await building
    assert heard.counts["rebuild.caught_up"] >= 5
    assert rebuilt.caught_up >= 400
    assert await rebuilds.harness.value("select count(*) from slow") == 410
