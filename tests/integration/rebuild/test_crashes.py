"""A builder that is killed leaves the live generation serving, and the next one goes on from what it left."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support import inspection
from tests.support.process import projectionist, run_projectionist
from tests.support.rebuilding import RebuildHarness, dying, shop_app
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

pytestmark = pytest.mark.asyncio

POINTS = (
    "rebuild.opened",
    "rebuild.prepared",
    "rebuild.read",
    "rebuild.copied",
    "rebuild.flushed",
    "rebuild.indexed",
    "rebuild.bulk_done",
    "rebuild.flipped",
    "rebuild.caught_up",
    "rebuild.round",
    "rebuild.compared",
    "swap.entered",
    "swap.shown",
    "swap.written",
    "swap.committed",
)


@pytest.mark.parametrize("point", POINTS)
async def test_a_builder_killed_anywhere_leaves_live_serving_and_the_next_one_finishes(
    rebuilds: RebuildHarness, tmp_path: Path, point: str
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders, s.Spend)
    for n in range(20):
        await harness.publish(OrderPlaced("ann", n), f"o{n}", 1)
        await harness.publish(OrderPaid(n), f"o{n}", 2)
    env = shop_app(tmp_path, harness)
    async with harness.running(s.Orders):
        await rebuilds.settled(s.Orders)
        command = ("rebuild", "orders:app", "Orders", "--json")
        async with projectionist(
            *command, cwd=tmp_path, env=env, pause_at={"rebuild.prepared": 1}, kill_at={point: 1}
        ) as child:
            await child.heard("rebuild.opened")
            if point not in ("rebuild.opened", "rebuild.prepared"):
                await child.heard("rebuild.prepared")
                for n in range(0, 20, 2):
                    await harness.publish(OrderNoted("x"), f"o{n}", 3)
                await rebuilds.settled(s.Orders)
                child.signal(signal.SIGCONT)
            ended = await child.ended()
        assert ended.code == -signal.SIGKILL, ended.err
        await harness.publish(OrderNoted("y"), "o1", 3)
        await rebuilds.settled(s.Orders)
        assert await rebuilds.generation(s.Orders) == (2 if point == "swap.committed" else 1)
        rows, effects = await harness.rows("orders"), await rebuilds.effects()
        assert len(rows) == 20
        assert ["placed", "paid", "y"] in [json.loads(row[3]) for row in rows]
        await rebuilds.moments_pass()

        ended = await run_projectionist(*command, cwd=tmp_path, **env)

        assert ended.code == 0, ended.err
        assert "Orders: the build lease is taken over from " in ended.err, "what was abandoned is told"
        (rebuilt,) = json.loads(ended.out)["rebuilt"]
        assert rebuilt["resumed"] is (point != "swap.committed")
        assert rebuilt["views"][0]["compared"]["differences"] == []
        assert await harness.rows("orders") == rows
        assert await rebuilds.effects() == effects
        await harness.publish(OrderPaid(1), "o1", 4)
        await rebuilds.settled(s.Orders)
    assert await rebuilds.generation(s.Orders) == rebuilt["views"][0]["generation"]
    assert await harness.head(s.Orders, "order/o1") == (4, "clear", 0)
    for leftover in ("dirty_marks", "build_excluded", "build_steps"):
        assert await harness.value(f"select count(*) from {{s}}.{leftover}") == 0


@asynccontextmanager
async def _on_its_second_generation(rebuilds: RebuildHarness) -> AsyncIterator[SimpleNamespace]:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders, s.Spend)
    for n in range(5):
        await harness.publish(OrderPlaced("ann", n), f"o{n}", 1)
    async with harness.running(s.Orders):
        await rebuilds.settled(s.Orders)
        await rebuilds.rebuild(s.Orders)
        yield s


@pytest.mark.parametrize("point", ["rebuild.opened", "rebuild.marked", "rebuild.flipped", "swap.written"])
async def test_a_way_back_that_is_killed_anywhere_is_gone_on_with(
    rebuilds: RebuildHarness, tmp_path: Path, point: str
) -> None:
    harness, env = rebuilds.harness, shop_app(tmp_path, rebuilds.harness)
    async with _on_its_second_generation(rebuilds) as s:
        for n in range(3):
            await harness.publish(OrderNoted("before"), f"o{n}", 2)
        await rebuilds.settled(s.Orders)
        command = ("generations", "rollback", "orders:app", "Orders", "1")
        async with projectionist(*command, cwd=tmp_path, env=env, kill_at={point: 1}) as child:
            ended = await child.ended()
        assert ended.code == -signal.SIGKILL, ended.err
        assert await rebuilds.generation(s.Orders) == 2
        await harness.publish(OrderNoted("between"), "o1", 3)
        await harness.publish(OrderNoted("between"), "o3", 2)
        await rebuilds.settled(s.Orders)
        rows = await harness.rows("orders")
        await rebuilds.moments_pass()

        ended = await run_projectionist(*command, cwd=tmp_path, **env)

        assert ended.code == 0, ended.err
        assert await rebuilds.generation(s.Orders) == 1
        assert await harness.rows("orders") == rows
        assert sum("before" in row[3] for row in rows) == 3
        assert sum("between" in row[3] for row in rows) == 2
    assert await inspection.count_marks(harness, "dirty_marks") == 0


@pytest.mark.parametrize("kind", ["rebuild", "rollback"])
@pytest.mark.parametrize("point", ["rebuild.given_up", "rebuild.cleared"])
async def test_a_build_is_given_up_by_the_next_process_when_the_one_giving_it_up_dies(
    rebuilds: RebuildHarness, tmp_path: Path, point: str, kind: str
) -> None:
    harness, env = rebuilds.harness, shop_app(tmp_path, rebuilds.harness)
    async with _on_its_second_generation(rebuilds) as s:
        await harness.publish(OrderNoted("x"), "o1", 2)
        await rebuilds.settled(s.Orders)
        tables, positions = await rebuilds.tables(), await rebuilds.positions()
        with dying("rebuild.flipped"):
            await rebuilds.rebuild(s.Orders, back_to=1 if kind == "rollback" else None)
        await harness.publish(OrderNoted("y"), "o2", 2)
        await rebuilds.settled(s.Orders)
        assert await inspection.count_marks(harness, "dirty_marks") > 0
        command = ("rebuild", "orders:app", "Orders", "--abort")
        async with projectionist(*command, cwd=tmp_path, env=env, kill_at={point: 1}) as child:
            ended = await child.ended()
        assert ended.code == -signal.SIGKILL, ended.err
        await harness.publish(OrderNoted("z"), "o3", 2)
        await rebuilds.settled(s.Orders)
        assert await inspection.count(harness, "dirty_marks", mark="order/o3") == 0
        await rebuilds.moments_pass()

        ended = await run_projectionist(*command, cwd=tmp_path, **env)

        assert ended.code == 0, ended.err
        assert (await rebuilds.tables(), await rebuilds.positions()) == (tables, positions)
        for leftover in ("dirty_marks", "build_excluded", "build_steps"):
            assert await harness.value(f"select count(*) from {{s}}.{leftover}") == 0
        assert (await rebuilds.rebuild(s.Orders, back_to=1)).views[0].generation == 1
        noted = [json.loads(row[3])[1:] for row in await harness.rows("orders")]
        assert sorted(noted) == [[], [], ["x"], ["y"], ["z"]]


async def test_what_is_being_given_up_is_not_gone_on_with(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    async with _on_its_second_generation(rebuilds) as s:
        with dying("rebuild.flipped"):
            await rebuilds.rebuild(s.Orders)
        with dying("rebuild.given_up"):
            await rebuilds.give_up(s.Orders)
        await harness.publish(OrderNoted("nobody marks it"), "o1", 2)
        await rebuilds.settled(s.Orders)

        rebuilt = await rebuilds.rebuild(s.Orders)

        assert (rebuilt.resumed, rebuilt.views[0].generation) == (False, 4)
        assert await rebuilds.tables() == ["orders__g1", "orders__g2", "orders__g4", "spend__g1"]
        assert '["placed", "nobody marks it"]' in [row[3] for row in await harness.rows("orders")]
