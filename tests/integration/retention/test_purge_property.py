"""Whatever is purged, retried, published again and delivered again within the horizon: nothing is applied twice."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from tests.support import inspection
from tests.support.consumer_harness import PATIENCE, ConsumerHarness
from tests.support.retention import DAY, age, forgets_after, purge, sent, went
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.operator import Act, NotThere, TooLate

pytestmark = pytest.mark.asyncio

SEEDS = range(4)
STEPS = 25
POLICY = msgspec.structs.replace(PATIENCE, retention_s=10 * DAY)
STREAM_DAYS = 9
Published = tuple[Any, str, int, str, float]


class Story:
    """One random history of a consumer, whose outcome is counted beside it."""

    def __init__(self, live: ConsumerHarness, seed: int, sequence: str) -> None:
        self.live, self.sequence = live, sequence
        self.random = random.Random(seed)
        self.s = shop(live.stream, sequence=sequence)
        self.now = 0.0
        self.removed: Counter[str] = Counter()
        self.stored: list[float] = []
        """When each message of the stream was stored."""
        self.published: list[Published] = []
        self.versions: dict[str, int] = {}
        self.last: dict[str, float] = {}

    async def step(self) -> None:
        """Something happens."""
        act = self.random.choice(
            [
                self.new,
                self.new,
                self.again,
                self.again,
                self.rewind,
                self.purge,
                self.purge,
                self.retry,
                self.wait,
            ]
        )
        await act()

    async def new(self) -> None:
        """A few new events; some are poison for a while."""
        for _ in range(self.random.randint(1, 4)):
            order = f"o{self.random.randint(0, 3)}"
            version = self.versions[order] = self.versions.get(order, 0) + 1
            event = (
                OrderPlaced("ann", 1)
                if version == 1
                else OrderNoted("bad")
                if self.random.random() < 0.3
                else OrderPaid()
            )
            name = f"{order}-{version}"
            self.published.append((event, order, version, name, self.now))
            self.last[name] = self.now
            await self.live.publish(event, order, version, id=name)
        self.s.trouble.poison = {"bad"} if self.random.random() < 0.5 else set()
        await self.settle()

    async def again(self) -> None:
        """A producer sends one again under the id it had; where there is no order, within the horizon of that id."""
        horizon = STREAM_DAYS if self.sequence == "unordered" else 1e9
        ripe = [one for one in self.published if self.now - self.last[one[3]] < horizon]
        if ripe:
            event, order, version, name, _ = self.random.choice(ripe)
            self.last[name] = self.now
            await self.live.publish(event, order, version, id=name)
            await self.settle()

    async def rewind(self) -> None:
        """The broker delivers again all it holds, as after a restore."""
        durable = await inspection.durable_name(self.live, "Orders")
        if durable and self.published:
            await self.live.nats.jetstream().delete_consumer(self.live.stream.name, durable)
            await self.live.pool.execute("update projectionist.floors set floor = 0, floor_hash = null")
            await self.settle()

    async def purge(self) -> None:
        """Retention does its work."""
        state = (await self.live.nats.jetstream().stream_info(self.live.stream.name)).state
        async with self.live.running(self.s.Orders, policy=POLICY):
            await self.live.settled(self.s.Orders)
            if state.last_seq:
                await inspection.reaches(state.last_seq, inspection.ack_floor, self.live)
        await sent(self.live)
        report = await purge(self.live, self.s.Orders, policy=POLICY, intent_retention_s=3 * DAY)
        self.removed.update(went(report))

    async def retry(self) -> None:
        """What failed is tried again, mended."""
        self.s.trouble.poison = set()
        act = Act("ann", "mended")
        async with self.live.verbs(self.s.Orders) as verbs:
            try:
                for (aggregate,) in await self.live.fetch(
                    "select aggregate from {s}.positions where head <> 'clear'"
                ):
                    await verbs.retry(aggregate, act)
                for entry in await self.live.fetch("select source, id from {s}.parked where not ordered"):
                    await verbs.retry_entry((entry[0], entry[1]), act)
            except (NotThere, TooLate):
                return
        await self.settle()

    async def wait(self) -> None:
        """Days pass, in the tables and in the stream."""
        await self.pass_days(self.random.choice([1, 4, 4, 6]))

    async def pass_days(self, days: int) -> None:
        """So many."""
        self.now += days
        await age(self.live, days)
        if self.sequence != "contiguous":
            await self._expire()

    async def _expire(self) -> None:
        """Messages older than the stream's max_age go, oldest first, as the broker would do it."""
        js = self.live.nats.jetstream()
        first = (await js.stream_info(self.live.stream.name)).state.first_seq
        old = sum(1 for at in self.stored if self.now - at >= STREAM_DAYS)
        if old and old + 1 > first:
            await js.purge_stream(self.live.stream.name, seq=old + 1)

    async def settle(self) -> None:
        """Run until everything is settled."""
        await self.live.settle(self.s.Orders, policy=POLICY)


@pytest.mark.parametrize("sequence", ["contiguous", "monotonic", "unordered"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_no_order_of_purges_retries_repeats_and_redeliveries_applies_anything_twice(
    live: ConsumerHarness, seed: int, sequence: str
) -> None:
    story = Story(live, seed, sequence)
    publish = live.publish

    async def noted(*args: Any, **given: Any) -> int:
        story.stored.append(story.now)
        return await publish(*args, **given)

    live.publish = noted  # type: ignore[method-assign]  # the story has to know when each message was stored
    if sequence != "contiguous":
        await forgets_after(live, STREAM_DAYS)
    await live.migrate(story.s.Orders)
    for _ in range(STEPS):
        await story.step()
    await story.retry()
    await story.purge()
    await story.pass_days(12)
    await story.purge()
    assert min(story.removed["inbox"], story.removed["intents"]), "it was about what a purge does"

    for _, _, _, history in await live.rows("orders"):
        taken = [one for one in msgspec.json.decode(history) if one == "placed"]
        assert len(taken) <= 1, history
    applied = await inspection.count_outcomes(live, "applied")
    assert applied == len(story.published)
    events = await live.rows("orders")
    assert sum(len(msgspec.json.decode(history)) for *_, history in events) == len(story.published)
    written = story.removed["intents"] + await inspection.count_intents(live)
    assert written == sum(isinstance(event, OrderPaid) for event, *_ in story.published)
