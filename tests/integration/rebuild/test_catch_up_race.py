"""Live may be as fast as a rebuild catches up: that has an end too, with a word, or with live slowed down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import pytest
from tests.support import inspection
from tests.support.rebuilding import RebuildHarness
from tests.support.shop import OrderPlaced, shop
from tests.support.waiting import cancelled, eventually, listening

from projectionist.projections import definition
from projectionist.runner.history.progress import Logged
from projectionist.runner.rebuild import catch_up_race, rebuild
from projectionist.runner.rebuild.catch_up import CatchUp
from projectionist.runner.rebuild.times import RebuildTimes

pytestmark = pytest.mark.asyncio


class Heard(Logged):
    """Progress that remembers what it was told."""

    def __init__(self) -> None:
        super().__init__("Orders")
        self.said: list[str] = []

    def say(self, text: str) -> None:
        """Remember."""
        self.said.append(text)


@asynccontextmanager
async def outrun(rebuilds: RebuildHarness, cls: type, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Inside the block every round of catching up ends only when live has applied ten events more; three if slowed."""
    harness, numbers = rebuilds.harness, count()
    applied = "select count(*) from {s}.inbox where state = 'applied'"
    whole = CatchUp.round

    async def round_(self: CatchUp) -> int:
        done = await whole(self)
        slowed = bool(braked.counts["brake.held"])
        batch = [next(numbers) for _ in range(3 if slowed else 10)]
        await harness.publish_all([(OrderPlaced("bob", n), f"p{n}", 1, f"p{n}") for n in batch])

        async def moved() -> bool:
            if braked.counts["brake.held"] and not slowed:
                return True
            return bool(await harness.value(applied) > batch[-1] + 1)  # all of them, and the one before

        await eventually(moved)
        return done

    monkeypatch.setattr(CatchUp, "round", round_)
    monkeypatch.setattr(rebuild, "FEW", 5)
    with listening() as braked:
        yield


async def test_catching_up_that_live_outruns_says_so_and_ends_with_a_word(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s, told = shop(rebuilds.harness.stream), Heard()
    await rebuilds.harness.migrate(s.Orders)
    await rebuilds.harness.publish(OrderPlaced("ann", 1), "o1", 1)
    async with rebuilds.harness.running(s.Orders):
        await rebuilds.harness.settled(s.Orders)
        async with outrun(rebuilds, s.Orders, monkeypatch):
            with pytest.raises(catch_up_race.BuildOutrun, match="as fast as they can be caught up") as ended:
                await rebuilds.rebuild(s.Orders, progress=told, times=RebuildTimes(outrun_s=1.0))
        assert "--slow-live" in ended.value.remedy
        assert any("live applies as fast" in line for line in told.said)
        monkeypatch.undo()
        assert (await rebuilds.rebuild(s.Orders)).resumed
    assert await rebuilds.generation(s.Orders) == 2


async def test_live_is_slowed_down_where_that_is_asked_for_and_the_rebuild_ends(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s, told = shop(rebuilds.harness.stream), Heard()
    await rebuilds.harness.migrate(s.Orders)
    await rebuilds.harness.publish(OrderPlaced("ann", 1), "o1", 1)
    async with rebuilds.harness.running(s.Orders):
        await rebuilds.harness.settled(s.Orders)
        with listening() as heard:
            async with outrun(rebuilds, s.Orders, monkeypatch):
                await rebuilds.rebuild(s.Orders, progress=told, slow_live=True)
    assert await rebuilds.generation(s.Orders) == 2
    assert heard.counts["brake.held"] >= 1
    assert any("kept waiting 50% of the time" in line for line in told.said)


async def test_the_brake_keeps_batches_waiting_no_longer_than_one_hold_at_a_time(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    number = await inspection.consumer_number(harness, definition(s.Orders).name)
    brake = catch_up_race.Brake(harness.settings.postgres, number)
    brake.share = catch_up_race.SHARES[-1]

    async def hold() -> None:
        async with brake.at_hand():
            with brake.on():
                await asyncio.sleep(3600)

    with listening() as heard:
        holding = asyncio.create_task(hold())
        await heard.wait("brake.held")
        async with harness.running(s.Orders):
            for n in range(20):
                await harness.publish(OrderPlaced("ann", n), f"o{n}", 1)
            await harness.settled(s.Orders)
        await cancelled(holding)
        assert heard.counts["brake.held"] > 1
    assert await harness.value("select count(*) from orders") == 20
