"""Processes of a set of views that die in the middle of their work: all views go on from one place."""

from __future__ import annotations

import random
import signal

import pytest
from tests.integration.batch import test_set_lookups as lookups
from tests.integration.batch.test_view_sets import histories, tables
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import projectionist
from tests.support.set_lookups import folded as looked_up
from tests.support.set_lookups import looking_set
from tests.support.shop_app import LOOKING_APP, SET_APP, environment
from tests.support.view_sets import Happened, folded, view_set

pytestmark = pytest.mark.asyncio


async def test_of_two_processes_that_feed_a_set_each_is_killed_and_no_view_notices(
    live: ConsumerHarness,
) -> None:
    """The first with all views written and nothing committed, the second with all committed and nothing acked."""
    shop = view_set(live.stream)
    await live.migrate(shop.Shop)
    events = list(histories(40, random.Random(7)))
    await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in events)
    await _two_are_killed(live, SET_APP)
    await live.settle(shop.Shop)

    assert await tables(live) == folded(events)
    assert await inspection.count(live, "positions", head="waiting") == 4
    assert await live.unaccounted(shop.Shop) == []


async def test_two_processes_are_killed_whose_views_look_each_other_up_and_no_row_notices(
    live: ConsumerHarness,
) -> None:
    """What was looked up in a batch that died is looked up anew in the one that comes after it."""
    shop, chance = looking_set(live.stream), random.Random(7)
    await live.migrate(shop.Shop)
    named = lookups.named()
    await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in named)
    await live.settle(shop.Shop)
    events = list(lookups.histories(40, chance))
    sent = [*events, *chance.sample(events, 30)]
    await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in sent)
    await _two_are_killed(live, LOOKING_APP)
    await live.settle(shop.Shop)

    found, expected = await lookups.tables(live), looked_up([*named, *events])
    assert lookups.without_numbers(found) == lookups.without_numbers(expected)
    assert await inspection.count(live, "positions", head="waiting") == 4
    assert await live.unaccounted(shop.Shop) == []


async def _two_are_killed(live: ConsumerHarness, app: str) -> None:
    env = environment(live, batch__max_rows="30")
    async with projectionist("run", app, env=env, pause_at={"batch.written": 2}) as doomed:
        await doomed.paused("batch.written")
        async with projectionist("run", app, env=env, kill_at={"batch.committed": 2}) as other:
            doomed.signal(signal.SIGKILL)
            assert (await doomed.ended()).code == (await other.ended()).code == -signal.SIGKILL


async def test_a_view_joins_under_load_though_each_process_that_builds_it_is_killed(
    live: ConsumerHarness,
) -> None:
    """With rows copied, with the swap written, and with it committed: old code serves until then, new code after it."""
    few, shop, chance = view_set(live.stream, order=[0, 1, 3]), view_set(live.stream), random.Random(8)
    events = list(histories(60, chance))
    third = len(events) // 3
    env = environment(live, batch__max_rows="30")

    async def publish(some: list[Happened]) -> None:
        await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in some)

    await live.migrate(few.Shop)
    await publish(events[:third])
    await live.settle(few.Shop)
    await live.migrate(shop.Shop)
    for point, some in (
        ("rebuild.copied", events[third : 2 * third]),
        ("swap.written", events[2 * third :]),
        ("swap.committed", []),
    ):
        await live.pool.execute("update projectionist.leases set expires_at = clock_timestamp()")
        async with projectionist("run", SET_APP, env=env, kill_at={point: 1}) as builder:
            await publish(some)
            assert (await builder.ended()).code == -signal.SIGKILL
        state = await inspection.value(live, "views", "state", name="Spend")
        assert state == ("live" if point == "swap.committed" else "joining")
    await live.settle(shop.Shop, processes=2)

    assert await tables(live) == folded(events)
    assert await live.unaccounted(shop.Shop) == []
