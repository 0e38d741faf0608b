"""A builder that is killed leaves the live generation serving, and the next one goes on from what it left."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.support.process import projectionist, run_projectionist
from tests.support.rebuilding import RebuildHarness, shop_app
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
        assert "Orders: the turn to build is taken over from " in ended.err, "what was abandoned is told"
        (rebuilt,) = json.loads(ended.out)["rebuilt"]
        assert rebuilt["resumed"] is (point != "swap.committed")
        assert rebuilt["compared"]["differences"] == []
        assert await harness.rows("orders") == rows
        assert await rebuilds.effects() == effects
        await harness.publish(OrderPaid(1), "o1", 4)
        await rebuilds.settled(s.Orders)
    assert await rebuilds.generation(s.Orders) == rebuilt["generation"]
    assert await harness.head(s.Orders, "order/o1") == (4, "clear", 0)
    for leftover in ("dirty", "build_apart", "build_steps"):
        assert await harness.value(f"select count(*) from {{s}}.{leftover}") == 0
