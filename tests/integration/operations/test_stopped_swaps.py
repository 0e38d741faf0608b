"""A rebuild that is stopped while it swaps: before the COMMIT nothing of the swap is left, from it on it is done.

The windows: before the locks, while it waits for them, under them, with everything written, and once it is committed.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.parked_operations import operating
from tests.support.rebuilding import ACT, RebuildHarness
from tests.support.shop import OrderPlaced, shop
from tests.support.shop_app import APP, environment
from tests.support.waiting import HANG_S, listening

from projectionist.core import testpoints
from projectionist.core.nats import connections
from projectionist.core.retry_policy import RetryPolicy
from projectionist.projections.compiled.definition import consumer_definition
from projectionist.runner.history.progress import Logged
from projectionist.runner.operations.long_act import ActStopped, long_act
from projectionist.runner.operations.operation import OperationKind
from projectionist.runner.rebuild.rebuild import Rebuild, Rebuilt
from projectionist.runner.rebuild.times import RebuildTimes

pytestmark = pytest.mark.asyncio

PATIENT = RebuildTimes(holds=RetryPolicy(initial_s=HANG_S, maximum_s=HANG_S))
"""Nobody ends the session of one that stands still under the barrier."""
STOP = ("operations", "stop", "1", "--actor", "bob", "--reason", "at night")


async def placed(live: ConsumerHarness) -> Any:
    """A shop with three orders that Orders has applied."""
    made = shop(live.stream)
    await live.migrate(made.Orders)
    for n in range(3):
        await live.publish(OrderPlaced("ann", 5), f"o{n}", 1)
    await live.settle(made.Orders)
    return made


async def operated(live: ConsumerHarness, cls: type) -> Rebuilt:
    """Rebuild as an operation."""
    given = (live.settings.postgres, OperationKind.REBUILD, {"consumer": "Orders"}, ACT, "here")
    client = await connections.connect(live.settings.nats, name="builder")
    try:
        async with long_act(*given, Logged("Orders")) as told:
            return await Rebuild(consumer_definition(cls), live.settings, client, told, times=PATIENT).run()
        raise AssertionError("the task group neither returned nor raised")
    finally:
        await client.close()


@asynccontextmanager
async def stopped_at(
    live: ConsumerHarness, cli: Cli, cls: type, point: str
) -> AsyncIterator[asyncio.Future[Rebuilt]]:
    """A rebuild that stands still at a moment until it has been asked to stop, and its process knows."""
    loop, reached, free = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    beats: list[threading.Thread] = []

    def halt(name: str) -> None:
        if name == point and not beats:
            beats.extend(one for one in threading.enumerate() if one.name == "operation 1")
            loop.call_soon_threadsafe(reached.set)
            free.wait(HANG_S)

    end = testpoints.listen(halt)
    building = asyncio.ensure_future(asyncio.to_thread(asyncio.run, operated(live, cls)))
    try:
        await reached.wait()
        assert "is asked to stop" in await cli.done(*STOP)
        [beating] = beats
        await asyncio.to_thread(beating.join)
        free.set()
        yield building
    finally:
        free.set()
        end()


async def goes_on(live: ConsumerHarness, cls: type) -> None:
    """Assert that live applies what comes, and that all is sound."""
    await live.publish(OrderPlaced("bob", 7), "o9", 1)
    await live.settle(cls)
    assert ("o9",) in [row[:1] for row in await live.rows("orders")]
    await live.assert_sound()


@pytest.mark.parametrize("point", ["swap.asked", "swap.entered", "swap.shown"])
async def test_one_that_is_stopped_before_the_commit_leaves_live_as_it_was_and_goes_on(
    live: ConsumerHarness, cli: Cli, point: str
) -> None:
    orders, builders = (await placed(live)).Orders, RebuildHarness(live)
    async with stopped_at(live, cli, orders, point) as building:
        with pytest.raises(ActStopped, match="operation 1 was stopped: bob: at night"):
            await building
    assert await builders.generation(orders) == 1
    shown = await cli.seen("operations", "show", "1")
    assert (shown["state"], shown["note"]) == ("stopped", "bob: at night")
    await goes_on(live, orders)
    again = await builders.rebuild(orders)
    assert (again.resumed, await builders.generation(orders)) == (True, 2)
    found = await builders.verify(orders)
    assert (found.rows, found.drifted) == (4, 0)


async def test_one_that_is_kept_off_by_a_reader_is_stopped_between_its_tries(
    live: ConsumerHarness, cli: Cli
) -> None:
    orders, builders = (await placed(live)).Orders, RebuildHarness(live)
    async with live.pool.acquire() as reader, reader.transaction():
        await reader.execute("lock table orders in access share mode")
        with listening() as heard:
            building = asyncio.ensure_future(operated(live, orders))
            await heard.wait("swap.left")
        await cli.done(*STOP)
        with pytest.raises(ActStopped):
            await building
        assert await builders.generation(orders) == 1
        await goes_on(live, orders)
    assert (await builders.rebuild(orders)).resumed


@pytest.mark.parametrize("point", ["swap.written", "swap.committed"])
async def test_one_that_is_stopped_with_the_commit_is_done_and_says_so(
    live: ConsumerHarness, cli: Cli, point: str
) -> None:
    orders, builders = (await placed(live)).Orders, RebuildHarness(live)
    async with stopped_at(live, cli, orders, point) as building:
        done = await building
    assert ([one.generation for one in done.views], await builders.generation(orders)) == ([2], 2)
    shown = await cli.seen("operations", "show", "1")
    assert (shown["state"], shown["note"], shown["stop_asked_by"]) == ("done", None, "bob")
    assert await inspection.count(live, "builds") == 1
    await goes_on(live, orders)
    assert not (await builders.rebuild(orders)).resumed


@pytest.mark.parametrize("point", ["swap.asked", "swap.shown", "swap.written", "swap.committed"])
async def test_a_command_that_is_interrupted_in_its_swap_says_what_became_of_it(
    live: ConsumerHarness, cli: Cli, point: str
) -> None:
    orders, builders = (await placed(live)).Orders, RebuildHarness(live)
    words, env = ("rebuild", APP, "Orders", "--actor", "ann", "--reason", "mended"), environment(live)
    async with operating(Cli(live, cli.folder, **env), *words, pause_at={point: 1}, env=env) as child:
        await child.paused(point)
        child.signal(signal.SIGINT)
        child.signal(signal.SIGCONT)
        ended = await child.ended()
    shown, is_live = await cli.seen("operations", "show", "1"), await builders.generation(orders) == 2
    if is_live:  # PostgreSQL had the COMMIT before it was told to leave it
        assert ("is live" in ended.out, ended.code, shown["state"]) == (True, 0, "done")
    else:
        assert "Orders: interrupted, and not swapped: what was live is live" in ended.err
        assert (ended.code, shown["state"], shown["note"]) == (130, "stopped", "interrupted")
    assert is_live or point != "swap.committed"
    assert not is_live or point in ("swap.written", "swap.committed")
    await goes_on(live, orders)
    assert (await builders.rebuild(orders)).resumed != is_live
