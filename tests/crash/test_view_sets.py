"""Processes of a set of views that die in the middle of their work: all views go on from one place."""

from __future__ import annotations

import random
import signal

import pytest
from tests.integration.batch.test_view_sets import histories, tables
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import projectionist
from tests.support.shop_app import SET_APP, environment
from tests.support.view_sets import folded, view_set

pytestmark = pytest.mark.asyncio


async def test_of_two_processes_that_feed_a_set_each_is_killed_and_no_view_notices(
    live: ConsumerHarness,
) -> None:
    """The first with all views written and nothing committed, the second with all committed and nothing acked."""
    shop = view_set(live.stream)
    await live.migrate(shop.Shop)
    events = list(histories(40, random.Random(7)))
    await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in events)
    env = environment(live, batch__max_rows="30")
    async with projectionist("run", SET_APP, env=env, pause_at={"batch.written": 2}) as doomed:
        await doomed.paused("batch.written")
        async with projectionist("run", SET_APP, env=env, kill_at={"batch.committed": 2}) as other:
            doomed.signal(signal.SIGKILL)
            assert (await doomed.ended()).code == (await other.ended()).code == -signal.SIGKILL
    await live.settle(shop.Shop)

    assert await tables(live) == folded(events)
    assert await inspection.count(live, "positions", head="waiting") == 4
    assert await live.unaccounted(shop.Shop) == []
