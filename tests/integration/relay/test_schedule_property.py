"""Whatever openers, consumers and time do, in any order: who was taken back in time is not sent, and all others are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.scheduling import Scheduling, scheduling

from projectionist.outbox.intents.staging import Guard
from projectionist.outbox.relay.schedule_store import DueIntents, ScheduleStore

pytestmark = pytest.mark.asyncio

HOUR = timedelta(hours=1)
ORDERS = ("order/1", "order/2")
STEPS = ("look", "open", "apply", "promote")
MOVES = st.sampled_from(
    [(what, ORDERS[0]) for what in ("wish", "wish", "send", "cancel", "cancel", "reschedule", "drain")]
    + [(what, ORDERS[1]) for what in ("wish", "cancel")]
    + [(what, "") for what in ("settle", "settle", "settle", "park", "tick", "tick", "begin", "begin")]
    + [("catch up", "")] * 3
    + [(step, "0") for step in STEPS * 2]
    + [(what, "1") for what in ("look", "die", "go round", "go round")]
)


@pytest_asyncio.fixture
async def shop(database: str) -> AsyncIterator[Scheduling]:
    async with scheduling(database) as made:
        yield made


@dataclass
class Published:
    """An event, and what its handler asks for."""

    order: str
    version: int
    at: int
    asks: str


@dataclass
class Wished:
    """The oracle's memory of an intent."""

    order: str
    version: int
    due: int
    waits: bool


@dataclass
class Round:
    """How far an opener has come: what it looked at, and whether it has opened and applied since."""

    store: ScheduleStore
    due: DueIntents | None = None
    done: list[str] = field(default_factory=list)


class World:
    """Events that are published, settled, parked; openers that go round and die; and what must have come of it."""

    def __init__(self, shop: Scheduling, rounds: list[Round]) -> None:
        self.shop, self.rounds = shop, rounds
        self.hour = 0
        self.versions = dict.fromkeys(ORDERS, 0)
        self.unsettled: list[Published] = []
        self.parked: dict[str, list[Published]] = {order: [] for order in ORDERS}
        self.wishes: dict[str, Wished] = {}
        self.published: list[Published] = []
        self.committed: dict[tuple[str, int], int] = {}
        self.begun: set[str] = set()

    async def move(self, what: str, whom: str) -> None:
        """Make one move of any of them."""
        if what in ("wish", "send", "cancel", "reschedule"):
            self.versions[whom] += 1
            event = Published(whom, self.versions[whom], self.hour, what)
            self.published.append(event)
            self.unsettled.append(event)
        elif what in ("settle", "park"):
            await self.settle(park=what == "park")
        elif what == "drain":
            await self.drain(whom)
        elif what == "tick":
            self.hour += 1
            await self.shop.passes(HOUR)
        elif what == "catch up":
            behind = self.hour - self.unsettled[0].at if self.unsettled else 0
            await self.shop.catch_up(behind * HOUR)
        elif what == "begin":
            await self.begin()
        else:
            await self.go(self.rounds[int(whom)], what)

    async def settle(self, *, park: bool) -> None:
        """Settle the next event: its wishes are committed, or it waits with all behind it."""
        if not self.unsettled:
            return
        event = self.unsettled.pop(0)
        if park or self.parked[event.order]:
            self.parked[event.order].append(event)
            await self.shop.park(event.order, event.version)
        else:
            await self.commit(event)

    async def drain(self, order: str) -> None:
        """Apply what is parked, as one batch would: in order, and parked no more in the same moment."""
        waiting, self.parked[order] = self.parked[order], []
        async with self.shop.connection.transaction():
            for event in waiting:
                await self.shop.unpark(order, event.version)
                await self.commit(event)

    async def commit(self, event: Published) -> None:
        """Stage what an event asks for."""
        self.committed[event.order, event.version] = self.hour
        if event.asks in ("cancel", "reschedule"):
            await self.shop.cancel(event.version, aggregate=event.order)
        if event.asks != "cancel":
            waits, due = event.asks != "send", event.at + 1
            key = await self.shop.wish(
                event.version,
                (due - self.hour) * HOUR,
                aggregate=event.order,
                guard=Guard.CAUGHT_UP if waits else Guard.CLOCK,
            )
            self.wishes[key] = Wished(event.order, event.version, due, waits)

    async def go(self, one: Round, what: str) -> None:
        """Have an opener take a step of its round, or all of it; or die, so that the next one begins at its start."""
        if what == "die":
            one.due, one.done = None, []
        for step in STEPS if what == "go round" else (what,):
            if step == "look":
                one.due, one.done = await one.store.look(), ["look"]
            elif one.due is not None and step == "open" and one.done == ["look"]:
                while one.due.newest and await one.store.is_packed(one.due.newest):
                    await one.store.open()
                one.done.append("open")
            elif one.due is not None and step == "apply" and one.done == ["look", "open"]:
                await one.store.cancel()
                one.done.append("apply")
            elif one.due is not None and step == "promote" and "apply" in one.done:
                await one.store.promote(one.due)
                one.due, one.done = None, []

    async def begin(self) -> None:
        """Have a relay begin whatever stands in the outbox; none of it was taken back in time."""
        for key in [*await self.shop.lane(ORDERS[0]), *await self.shop.lane(ORDERS[1])]:
            if key not in self.begun:
                self.begun.add(key)
                await self.shop.put(key, "started", 1)
                assert not self.in_time(key), (self.wishes[key], self.published)
                assert self.hour >= self.wishes[key].due

    def in_time(self, key: str) -> bool:
        """Return whether an event has taken an intent back that was committed, or published, before it was due."""
        wish = self.wishes[key]
        for event in self.published:
            if event.order == wish.order and event.version > wish.version and "wish" != event.asks != "send":
                committed = self.committed.get((event.order, event.version))
                known = event.at if wish.waits else committed
                if (known is not None and known < wish.due) or (
                    committed is not None and committed < wish.due
                ):
                    return True
        return False

    async def end(self) -> None:
        """Let all trouble end: everything is settled, nothing waits any more, and nothing is lost."""
        while self.unsettled:
            await self.settle(park=False)
        for order in ORDERS:
            await self.drain(order)
        for _ in range(3):
            await self.move("tick", "")
        await self.move("catch up", "")
        for one in self.rounds:
            await self.go(one, "die")
        for _ in range(3):
            await self.shop.passes(HOUR)  # those that were looked at in vain are looked at again
            await self.move("catch up", "")
            await self.go(self.rounds[0], "go round")
        await self.begin()
        for key in self.wishes:
            place = await self.shop.place(key)
            assert place in ("started", "cancelled"), (place, self.wishes[key])
            assert (place == "started") == (key in self.begun)
            taken = [
                e
                for e in self.published
                if e.order == self.wishes[key].order and e.asks in ("cancel", "reschedule")
            ]
            assert place == "started" or any(e.version > self.wishes[key].version for e in taken)
        for event in self.published:
            if event.asks in ("cancel", "reschedule"):
                assert (await self.shop.counted(event.version, event.order))[0], "each is applied in the end"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(MOVES, min_size=20, max_size=60))
async def test_whatever_openers_do_and_whenever_they_die_a_cancel_in_time_is_obeyed(
    shop: Scheduling, moves: list[tuple[str, str]]
) -> None:
    await shop.empty()
    world = World(shop, [Round(store) for store in shop.stores])
    for what, whom in moves:
        await world.move(what, whom)
    await world.end()
