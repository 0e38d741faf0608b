"""Runner and relay inside a web application: its server has the signals, and what they have begun is settled."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import ROOT
from tests.support.shop import OrderPaid, OrderPlaced, shop
from tests.support.shop_app import environment
from tests.support.waiting import HANG_S, cancelled, eventually, listening

from projectionist.core.errors import ProjectionistError
from projectionist.projections import definition
from projectionist.runner.process.run import run

pytestmark = pytest.mark.asyncio


async def test_sigterm_ends_the_server_and_with_it_runner_and_relay(live: ConsumerHarness) -> None:
    """Each of them took the signal for itself: the server stayed, without its projections, until it was killed."""
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderPaid(), "o1", 2)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.web"),
        env=dict(environment(live)),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )

    async def sent() -> bool:
        assert process.returncode is None
        return bool(await inspection.count_intents(live, state="sent") == 1)

    try:
        await eventually(sent, seconds=60)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            said = (await process.communicate())[1].decode()
    finally:
        if process.returncode is None:
            process.kill()
    assert "Application shutdown complete" in said
    assert "Traceback" not in said
    assert [row[0] for row in await live.rows("orders")] == ["o1"]
    assert await inspection.count_running(live) == 0


async def test_what_ends_a_consumer_for_good_is_raised_to_whoever_embeds_it(live: ConsumerHarness) -> None:
    """Not in a group of groups, and not swallowed."""
    s = shop(live.stream)
    with pytest.raises(ProjectionistError, match="migrate"):
        await run([definition(s.Orders)], live.settings, signals=False)


async def test_the_first_consumer_that_cannot_go_on_is_raised_by_its_name(live: ConsumerHarness) -> None:
    """The host heard of it when no other was left, which may be never; what the others had begun is settled."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    with pytest.raises(
        ProjectionistError, match=r"^consumer 'Spend' cannot go on: .*`projectionist migrate`"
    ):
        await asyncio.wait_for(
            run([definition(s.Orders), definition(s.Spend)], live.settings, signals=False), HANG_S
        )
    assert await inspection.count_running(live) == 0


async def test_newer_code_of_one_consumer_leaves_the_others_of_a_host_at_work(live: ConsumerHarness) -> None:
    """Else each host of the release before would end as soon as the first of the next one begins."""
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    old = asyncio.create_task(
        run([definition(s.Orders), definition(s.Spend)], live.settings, signals=False), name="the old release"
    )
    try:
        with listening() as heard:
            await heard.wait("worker.running", 2)
            await live.pool.execute(
                "update projectionist.consumers set code = '', epoch = epoch + 1 where name = 'Orders'"
            )
            await live.publish(OrderPlaced("ann", 5), "o1", 1)
            await heard.wait("worker.ended")
            await live.settled(s.Spend)
        assert not old.done()
    finally:
        (ended,) = await cancelled(old)
    assert isinstance(ended, asyncio.CancelledError)
    assert await live.rows("spend") == [("ann", 1, 5)]
