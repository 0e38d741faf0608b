"""What a plan says about the disk: each rebuild keeps the generation before for a day."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.process import run_projectionist
from tests.support.rebuilding import RebuildHarness, shop_app
from tests.support.shop import OrderPlaced, shop

pytestmark = pytest.mark.asyncio


async def test_a_plan_counts_the_generations_that_are_kept_and_what_they_take(
    rebuilds: RebuildHarness, tmp_path: Path
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders, s.Spend)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Orders)

    async def planned() -> str:
        app = shop_app(tmp_path, harness)
        ended = await run_projectionist("rebuild", "orders:app", "Orders", "--plan", cwd=tmp_path, **app)
        assert ended.code == 0, ended.err
        return ended.out

    assert "kept" not in await planned()
    for _ in range(2):
        await rebuilds.rebuild(s.Orders)
    told = await planned()
    assert "kept     2 older generations" in told
    assert "`generations drop` frees them" in told
