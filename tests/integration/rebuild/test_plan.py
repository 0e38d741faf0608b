"""What a plan says about the disk: each rebuild keeps the generation before for a day."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.process import run_projectionist
from tests.support.rebuilding import Yard, shop_app
from tests.support.shop import OrderPlaced, shop

pytestmark = pytest.mark.asyncio


async def test_a_plan_counts_the_generations_that_are_kept_and_what_they_take(
    yard: Yard, tmp_path: Path
) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders, s.Spend)
    await rig.publish(OrderPlaced("ann", 1), "o1", 1)
    await rig.settle(s.Orders)

    async def planned() -> str:
        app = shop_app(tmp_path, rig)
        ended = await run_projectionist("rebuild", "orders:app", "Orders", "--plan", cwd=tmp_path, **app)
        assert ended.code == 0, ended.err
        return ended.out

    assert "kept" not in await planned()
    for _ in range(2):
        await yard.rebuild(s.Orders)
    told = await planned()
    assert "kept     2 older generations" in told
    assert "`generations drop` frees them" in told
