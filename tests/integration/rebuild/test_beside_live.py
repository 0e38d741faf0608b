"""Rebuilds while several runners work, events are shuffled, repeated, poisoned, and operators decide."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.support.rebuilding import RebuildHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.operator import Act, NotThere, TooLate
from projectionist.projections import Event

pytestmark = pytest.mark.asyncio

ACT = Act("operator", "a test says so")


def history(rng: random.Random, orders: int, versions: int) -> list[tuple[Event, str, int, str]]:
    """Events in the order in which they are stored: interleaved, some late, some twice, some indigestible."""
    runs: dict[str, list[tuple[Event, str, int, str]]] = {}
    for n in range(orders):
        name = f"o{n}"
        events: list[Event] = [OrderPlaced(rng.choice(["ann", "bob", "eve"]), rng.randrange(1, 900))]
        for _ in range(versions - 1):
            text = "bad" if rng.random() < 0.03 else rng.choice(["x", "y", "z"])
            events.append(OrderPaid(1) if rng.random() < 0.2 else OrderNoted(text))
        runs[name] = [(event, name, v, f"{name}-{v}") for v, event in enumerate(events, 1)]
    stored: list[tuple[Event, str, int, str]] = []
    late: list[tuple[Event, str, int, str]] = []
    while any(runs.values()):
        one = runs[rng.choice([name for name, run in runs.items() if run])].pop(0)
        (late if rng.random() < 0.05 else stored).append(one)
        if rng.random() < 0.05 and stored:
            stored.append(rng.choice(stored))
        if late and rng.random() < 0.3:
            stored.append(late.pop(0))
    return stored + late


@pytest.mark.parametrize("seed", range(3))
async def test_ten_rebuilds_under_load_end_with_the_rows_of_live(rebuilds: RebuildHarness, seed: int) -> None:
    harness, rng = rebuilds.harness, random.Random(seed)
    s = shop(harness.stream)
    s.trouble.poison.add("bad")
    await harness.migrate(s.Orders, s.Spend)
    stored = history(rng, 40, 12)
    swaps = 0

    async def publish() -> None:
        for event, name, version, identity in stored:
            await harness.publish(event, name, version, id=identity)
            await asyncio.sleep(0)

    async def operate() -> None:
        async with harness.verbs(s.Orders) as verbs:
            while not publishing.done():
                for (aggregate,) in await harness.fetch(
                    "select aggregate from {s}.positions p join {s}.consumers c on c.number = p.consumer"
                    " where c.name = 'Orders' and head = 'waiting' limit 3"
                ):
                    try:
                        await verbs.skip(aggregate, ACT)
                    except (TooLate, NotThere):
                        continue
                await asyncio.sleep(0.01)

    async with harness.running(s.Orders, s.Spend, processes=2):
        publishing = asyncio.create_task(publish())
        operating = asyncio.create_task(operate())
        while not publishing.done() or swaps < 4:
            for cls in (s.Orders, s.Spend):
                rebuilt = await rebuilds.rebuild(cls)
                assert rebuilt.views[0].compared.differences == []
                swaps += 1
        await publishing
        await operating
        await rebuilds.settled(s.Orders, s.Spend)
    before, spend = await harness.rows("orders"), await harness.rows("spend")
    effects = await rebuilds.effects()
    assert len(before) == 40

    assert (await rebuilds.rebuild(s.Orders)).views[0].compared.differences == []
    assert (await rebuilds.rebuild(s.Spend)).views[0].compared.differences == []

    assert await harness.rows("orders") == before
    assert await harness.rows("spend") == spend
    assert await rebuilds.effects() == effects
    assert await harness.unaccounted(s.Orders) == []
