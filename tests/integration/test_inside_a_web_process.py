"""Runner and relay inside a web application: its server has the signals, and what they have begun is settled."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import ROOT
from tests.support.shop import OrderPaid, OrderPlaced, shop
from tests.support.shop_app import environment
from tests.support.waiting import eventually

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
        return bool(await live.value("select count(*) from {s}.intents where state = 'sent'") == 1)

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
    assert await live.value("select count(*) from {s}.runners where stopped is null") == 0


async def test_what_ends_a_consumer_for_good_is_raised_to_whoever_embeds_it(live: ConsumerHarness) -> None:
    """Not in a group of groups, and not swallowed."""
    s = shop(live.stream)
    with pytest.raises(ProjectionistError, match="migrate"):
        await run([definition(s.Orders)], live.settings, signals=False)
