"""What real batches on a real server read and decide is a way through the model, and leads to the same tables."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import msgspec
import pytest
from tests.model.batch_world import Event, Place, World
from tests.model.recorded_batches import Attempt, Replay, recording
from tests.support import inspection
from tests.support.batch_driver import BatchDriver, batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPlaced, shop

from projectionist.core.operator import Act

pytestmark = pytest.mark.asyncio

VERSIONS, AGGREGATES, HISTORIES = 5, 2, 4
EVENTS = [Event(a, v, (a, v) == (0, 3)) for a in range(AGGREGATES) for v in range(1, VERSIONS + 1)]


@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_recorded_batches_are_allowed_by_the_model(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance, shuffled = Random(seed), [*EVENTS, *EVENTS[::3]]
    chance.shuffle(shuffled)
    s = shop(live.stream)
    s.trouble.refused.add("3 of 0")
    await live.migrate(s.Orders)
    drain = chance.choice([1, 2])
    policy = msgspec.structs.replace(live.policy, drain_batch_size=drain)
    replay = Replay(EVENTS, [name(one) for one in EVENTS], ["order/o0", "order/o1"], drain)
    world = nothing()

    async with batch_drivers(live, s.Orders, 2, policy) as drivers:
        with recording(monkeypatch) as attempts:
            while shuffled:
                beside = [[shuffled.pop() for _ in range(min(2, len(shuffled)))] for _ in drivers]
                await asyncio.gather(
                    *(
                        driver.settle(*(read(driver, one) for one in given))
                        for driver, given in zip(drivers, beside, strict=True)
                        if given
                    )
                )
                world = await replayed(live, replay, world, attempts)
                world = await drained(live, drivers[0], replay, world, attempts)
            async with live.verbs(s.Orders) as verbs:
                await verbs.skip("order/o0", Act("ops", "refused"))
            world = await replayed(live, replay, stepped_over(replay, world), attempts)
            world = await drained(live, drivers[1], replay, world, attempts)

    assert [place.version for place in world.places if place] == [VERSIONS] * AGGREGATES


async def test_a_batch_that_decides_otherwise_is_not_allowed() -> None:
    replay = Replay(EVENTS, [name(one) for one in EVENTS], ["order/o0", "order/o1"], 1)
    ids = frozenset({"0:1"})
    real = Attempt(
        given=ids,
        claimed=ids,
        locked={"order/o0": Place()},
        moved={"order/o0": Place(1)},
        applied=ids,
        committed=True,
    )

    assert replay.settle(nothing(), [real]) is not None
    plants: tuple[dict[str, Any], ...] = (
        {"claimed": frozenset[str]()},
        {"locked": {"order/o0": Place(1)}},
        {"moved": {"order/o0": Place(2)}},
        {"moved": {}},
        {"applied": frozenset[str](), "parked": ids},
    )
    for planted in plants:
        assert replay.settle(nothing(), [msgspec.structs.replace(real, **planted)]) is None


def name(event: Event) -> str:
    return f"{event.aggregate}:{event.version}"


def nothing() -> World:
    """A consumer that has seen no event."""
    return World(("",) * len(EVENTS), (None,) * AGGREGATES, ((),) * AGGREGATES, None, ())


def read(driver: BatchDriver, event: Event) -> Any:
    """The delivery of an event, whose row tells each version that it holds."""
    body = (
        OrderPlaced("ann", 1) if event.version == 1 else OrderNoted(f"{event.version} of {event.aggregate}")
    )
    return driver.read(body, f"o{event.aggregate}", event.version, id=name(event))


async def drained(
    live: ConsumerHarness, driver: BatchDriver, replay: Replay, world: World, attempts: list[Attempt]
) -> World:
    """Settle what is due, batch by batch."""
    while (due := await driver.due(100))[0]:
        await driver.settle(due=due[0])
        world = await replayed(live, replay, world, attempts)
    return world


async def replayed(live: ConsumerHarness, replay: Replay, world: World, attempts: list[Attempt]) -> World:
    """Take the batches that were recorded through the model, and compare where they lead with the tables."""
    after = replay.settle(world, attempts)
    assert after is not None, f"the model does not allow {attempts}"
    attempts.clear()
    inbox = dict(await inspection.rows(live, "inbox", "id", "state"))
    assert after.inbox == tuple(inbox.get(name(one), "") for one in EVENTS)
    stands = {
        a: Place(*rest)
        for a, *rest in await inspection.rows(live, "positions", "aggregate", "version", "head", "parked")
    }
    assert after.places == tuple(stands.get(f"order/o{a}") for a in range(AGGREGATES))
    rows = {key: history for key, _, _, history in await live.rows("orders")}
    told = tuple(msgspec.json.decode(rows.get(f"o{a}", "[]")) for a in range(AGGREGATES))
    assert tuple(tuple(1 if one == "placed" else int(one[0]) for one in row) for row in told) == after.rows
    return after


def stepped_over(replay: Replay, world: World) -> World:
    """Have a person step over what an aggregate waits at."""
    return next(after for label, after in replay.acts(world) if label.startswith("skips"))
