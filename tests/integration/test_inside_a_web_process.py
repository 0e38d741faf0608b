"""Runner and relay inside another program: it has the signals, and what they have begun is settled."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from tests.support import inspection
from tests.support.consumer_harness import PATIENCE, ConsumerHarness
from tests.support.process import ROOT
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, mended, shop
from tests.support.shop_app import environment
from tests.support.waiting import HANG_S, cancelled, eventually, listening

from projectionist.core.errors import ProjectionistError
from projectionist.runner import App

pytestmark = pytest.mark.asyncio

LONG = msgspec.structs.replace(PATIENCE, ack_wait_s=10 * HANG_S)
"""Whoever waits for the broker to give again what another has kept waits in vain."""


@asynccontextmanager
async def hosted(
    live: ConsumerHarness, host: str, **settings: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program that runs the shop beside its own work; ended by then, or killed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.web", host),
        env=dict(environment(live, **settings)),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def ended(process: asyncio.subprocess.Process) -> str:
    """Return what it has said when it is over."""
    async with asyncio.timeout(HANG_S):
        return (await process.communicate())[1].decode()


@pytest.mark.parametrize("host", ["fastapi", "litestar", "asyncio"])
async def test_sigterm_ends_the_host_drained_and_nothing_held_is_late(
    live: ConsumerHarness, host: str
) -> None:
    """Runner and relay took the signal for themselves: the server stayed, without its projections, until killed."""
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderPaid(), "o1", 2)
    await live.publish_all((OrderPlaced("bob", 1), f"b{n}", 1, f"bob {n}") for n in range(400))
    limits = {"batch__max_rows": "5", "consumer_defaults__ack_wait_s": f"{LONG.ack_wait_s:g}"}

    async def sent() -> bool:
        assert process.returncode is None
        return bool(await inspection.count_intents(live, state="sent") == 1)

    async with hosted(live, host, **limits) as process:
        await eventually(sent)
        process.send_signal(signal.SIGTERM)
        said = await ended(process)
    assert "Application shutdown complete" in said
    assert "Traceback" not in said
    assert await inspection.count_running(live) == 0
    await live.settle(s.Orders, s.Spend, policy=LONG)
    assert await live.value("select count(*) from orders") == 401
    assert await live.rows("spend") == [("ann", 1, 5), ("bob", 400, 400)]


async def test_a_host_whose_consumer_cannot_go_on_ends_and_says_why(live: ConsumerHarness) -> None:
    """uvicorn would serve on, without its consumers."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with hosted(live, "fastapi") as process:
        assert "consumer 'Spend' cannot go on: " in await ended(process)
    assert await inspection.count_running(live) == 0


async def test_what_ends_a_consumer_for_good_cancels_the_block_and_is_raised_alone(
    live: ConsumerHarness,
) -> None:
    """Not in a group of groups, not swallowed, and not only when no other consumer is left, which may be never."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    app = App(projections=[s.Orders, s.Spend], settings=live.settings)
    reason = r"^consumer 'Spend' cannot go on: .*`projectionist migrate`"
    with pytest.raises(ProjectionistError, match=reason):
        async with asyncio.timeout(HANG_S), app.running() as running:
            await asyncio.Event().wait()
    assert "consumer 'Spend' cannot go on" in running.why[0]
    assert not running.ready
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert await inspection.count_running(live) == 0


async def test_a_block_that_is_cancelled_or_left_settles_what_has_begun(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    app = App(projections=[s.Orders, s.Spend], settings=live.settings)
    levels = [logging.getLogger(name).level for name in (None, "projectionist")]
    handlers = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    async def host() -> None:
        async with app.running(migrate=True) as running:
            assert not running.ready
            assert "starting" in running.why
            await eventually(lambda: _true(running.ready))
            assert running.why == []
            begun.set()
            await asyncio.Event().wait()

    begun = asyncio.Event()
    task = asyncio.create_task(host())
    await eventually(lambda: _true(begun.is_set() or task.done()))
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.settled(s.Orders, s.Spend)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == handlers
    assert [logging.getLogger(name).level for name in (None, "projectionist")] == levels
    (end,) = await cancelled(task)
    assert isinstance(end, asyncio.CancelledError)
    assert await inspection.count_running(live) == 0
    async with app.running(consumers=[s.Spend]) as running:
        await eventually(lambda: _true(running.ready))
        assert await inspection.count_running(live) == 1
    assert running.why == ["it has ended"]
    assert await inspection.count_running(live) == 0


async def _true(value: bool) -> bool:
    return value


async def test_newer_code_ends_its_consumer_alone_and_has_at_once_what_it_held(
    live: ConsumerHarness,
) -> None:
    """Else each host of the release before would end as soon as the first of the next one begins."""
    s = shop(live.stream)
    settings = msgspec.structs.replace(live.settings, consumer_defaults=LONG)
    old = App(projections=[s.Orders, s.Spend], settings=settings)
    newer = mended(live.stream)
    async with old.running(migrate=True) as running:
        await eventually(lambda: _true(running.ready))
        with listening() as heard:
            async with live.running(newer, policy=LONG):
                await heard.wait("worker.running")
                await live.publish_all((OrderNoted(f"{n}"), "o1", n, f"note {n}") for n in range(1, 201))
                await heard.wait("worker.ended")
                await live.settled(newer, s.Spend)
        assert running.ready
        assert [why.split(":")[0] for why in running.superseded] == ["Orders"]
        await live.publish(OrderPlaced("ann", 5), "o1", 201)
        await live.settled(s.Spend)
    assert await live.rows("spend") == [("ann", 1, 5)]


async def test_a_host_whose_every_consumer_newer_code_has_goes_on_with_its_own_work(
    live: ConsumerHarness,
) -> None:
    """It serves requests too, while the next release is rolled out."""
    s = shop(live.stream)
    newer = mended(live.stream)
    await live.migrate(s.Orders)
    async with live.running(s.Orders):
        await live.settled(s.Orders)
    async with live.running(newer):
        await live.settled(newer)
    before = asyncio.all_tasks()
    async with App(projections=[s.Orders], settings=live.settings).running() as running:
        await asyncio.wait(asyncio.all_tasks() - before)  # nothing works any more
        assert running.superseded
        assert running.ready, running.why
    assert "newer code" in running.superseded[0]
    assert running.why == ["it has ended"]
