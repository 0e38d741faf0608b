"""A builder of a set is killed at each named moment: live serves, and the next one goes on; one of its views joins."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.integration.batch.test_view_sets import tables
from tests.integration.rebuild.test_crashes import POINTS
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import projectionist, run_projectionist
from tests.support.rebuilding import RebuildHarness
from tests.support.shop_app import SET_APP, environment
from tests.support.view_sets import Happened, Paid, Placed, folded, view_set

pytestmark = pytest.mark.asyncio
BUILD = ("rebuild", SET_APP, "Shop", "--json")


async def publish(live: ConsumerHarness, events: list[Happened]) -> None:
    """Store events, each under an id of its own."""
    await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in events)


@pytest.mark.parametrize("point", POINTS)
async def test_whoever_builds_a_set_is_killed_anywhere_and_the_next_one_finishes(
    rebuilds: RebuildHarness, tmp_path: Path, point: str
) -> None:
    """All views with rows are built again, and one that is new joins them at the same swap."""
    live = rebuilds.harness
    few, shop = view_set(live.stream, order=[0, 1, 3]), view_set(live.stream)
    events: list[Happened] = [(f"o{n:02}", 1, Placed(f"c{n % 3}", (n, 1))) for n in range(12)]
    env = environment(live)
    await live.migrate(few.Shop)
    await publish(live, events)
    await live.settle(few.Shop)
    await live.migrate(shop.Shop)
    async with projectionist(
        *BUILD, cwd=tmp_path, env=env, pause_at={"rebuild.prepared": 1}, kill_at={point: 1}
    ) as child:
        await child.heard("rebuild.opened")
        if point not in ("rebuild.opened", "rebuild.prepared"):
            await child.heard("rebuild.prepared")
            events += await more(live, few, [(f"o{n:02}", 2, Paid(n + 1)) for n in range(0, 12, 2)])
            child.signal(signal.SIGCONT)
        ended = await child.ended()
    assert ended.code == -signal.SIGKILL, ended.err
    has_joined = point == "swap.committed"
    assert await states(live) == ({"live"} if has_joined else {"live", "joining"})
    events += await more(live, shop if has_joined else few, [("o01", 2, Paid(7))])
    await rebuilds.moments_pass()

    ended = await run_projectionist(*BUILD, cwd=tmp_path, **env)

    assert ended.code == 0, ended.err
    (rebuilt,) = json.loads(ended.out)["rebuilt"]
    assert rebuilt["resumed"] is not has_joined
    assert [view["compared"]["differences"] for view in rebuilt["views"]] == [[], [], []]
    assert await states(live) == {"live"}
    events += await more(live, shop, [("o01", 3, Paid(8)), ("late", 1, Placed("c9", (1,)))])
    assert await tables(live) == folded(events)
    for leftover in ("dirty_marks", "build_excluded", "build_steps"):
        assert await inspection.count_marks(live, leftover) == 0


async def more(live: ConsumerHarness, shop: Any, events: list[Happened]) -> list[Happened]:
    """Store and settle more events with this code; what they were."""
    await publish(live, events)
    await live.settle(shop.Shop)
    return events


async def states(live: ConsumerHarness) -> set[str]:
    """The states of the set's views."""
    return {state for (state,) in await inspection.rows(live, "views", "state")}


@pytest.mark.parametrize("point", ["rebuild.opened", "rebuild.marked", "rebuild.flipped", "swap.written"])
async def test_whoever_goes_back_with_one_view_is_killed_and_the_others_can_follow(
    rebuilds: RebuildHarness, tmp_path: Path, point: str
) -> None:
    live, env = rebuilds.harness, environment(rebuilds.harness)
    shop = view_set(live.stream)
    await live.migrate(shop.Shop)
    events = await more(live, shop, [(f"o{n}", 1, Placed("ann", (n,))) for n in range(5)])
    await rebuilds.rebuild(shop.Shop)
    events += await more(live, shop, [("o1", 2, Paid(3))])
    back = ("generations", "rollback", SET_APP, "Shop.Spend", "1")
    async with projectionist(*back, cwd=tmp_path, env=env, kill_at={point: 1}) as child:
        ended = await child.ended()
    assert ended.code == -signal.SIGKILL, ended.err
    events += await more(live, shop, [("x", 1, Placed("ann", (9,)))])
    await rebuilds.moments_pass()

    for name in ("Shop.Spend", "Shop.Lines"):
        ended = await run_projectionist("generations", "rollback", SET_APP, name, "1", cwd=tmp_path, **env)
        assert ended.code == 0, ended.err

    events += await more(live, shop, [("y", 1, Placed("ann", (2,)))])
    assert await tables(live) == folded(events)
    assert await inspection.rows(live, "views", "generation", order="number") == [(2,), (1,), (1,), (1,)]
