"""The load of a soak: orders whose events come late, twice and in any order, and a look at what has become of them.

What is settled is told by rows and by the provider's ledger alone, as somebody outside would tell it.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from random import Random
from typing import Any

import asyncpg
import msgspec
import nats.errors
from tests.support.consumer_harness import ConsumerHarness, headers_of
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced
from tests.support.soak_app import FINE, ODD
from tests.support.stub_provider import StubProvider
from tests.support.waiting import HANG_S, cancelled, eventually

from projectionist.projections import Event

GROUP = 5
"""So many orders has a customer."""
MOST_OPEN = 60
"""While so many orders are not settled no further one begins: the load is what the machine can bear."""
PACE_S = 0.2
ODD_SHARE, LATE_SHARE, AGAIN_SHARE = 0.15, 0.05, 0.01
"""How many notes are odd, how many events come later than their order's others, how many come once more."""


class Order(msgspec.Struct, kw_only=True):
    """One order: what its events say, and which of them, by version, the stream has taken."""

    name: str
    customer: str
    cents: int
    notes: list[str]
    stored: set[int] = msgspec.field(default_factory=set)

    @property
    def versions(self) -> int:
        """Return how many events it has: it is placed, noted and paid."""
        return len(self.notes) + 2

    @property
    def missing(self) -> list[int]:
        """Return the versions that the stream has not taken."""
        return [version for version in range(1, self.versions + 1) if version not in self.stored]

    @property
    def row(self) -> tuple[str, int, list[str]]:
        """Return status, cents and history of its row when all is applied."""
        return "paid", self.cents, ["placed", *self.notes, "paid"]

    def event(self, version: int) -> Event:
        """Return one of its events."""
        if version == 1:
            return OrderPlaced(self.customer, self.cents)
        return OrderPaid() if version == self.versions else OrderNoted(self.notes[version - 2])


Sent = tuple[Order, int]
"""An order and a version of it."""
AWAY = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What is raised by a server that is away; the last by a session that was cut off in the middle of an answer."""


class SoakLoad:
    """Publishes orders from `begin` to `finish`, and knows which of them are settled."""

    def __init__(self, live: ConsumerHarness, stub: StubProvider, random: Random) -> None:
        self._live, self._stub, self._random = live, stub, random
        self._orders: list[Order] = []
        self._groups: defaultdict[str, list[Order]] = defaultdict(list)
        self._late: deque[tuple[int, Sent]] = deque()
        """What is held back, and until which burst."""
        self._recent: deque[Sent] = deque(maxlen=200)
        self._bursts = self._complete = 0
        self._over = False
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._done: set[str] = set()
        """The orders whose receipts the provider has sent."""
        self.published = 0
        """Messages that the stream has taken."""
        self.open: dict[str, Order] = {}
        """Orders that the stream has wholly, and tables or provider not."""
        self.owing: dict[str, list[Order]] = {}
        """Customers of whose orders the stream has all, and their sums not."""

    @property
    def events(self) -> int:
        """Return how many different events there are."""
        return sum(one.versions for one in self._orders)

    def unsettled(self) -> set[str]:
        """Return the orders and customers of which the stream has all, and tables or provider not."""
        return {*self.open, *self.owing}

    def begin(self) -> None:
        """Publish, a burst after the other."""
        self._task = asyncio.create_task(self._flow())

    async def finish(self) -> None:
        """Begin no further order, and complete all that were begun."""
        self._over = True
        if self._task is not None:
            await self._task
        self._late.clear()
        await self._store([(one, version) for one in self._orders for version in one.missing])
        for customer, orders in self._groups.items():
            if len(orders) < GROUP:
                self.owing[customer] = orders

    async def end(self) -> None:
        """Publish nothing more, whatever is incomplete."""
        if self._task is not None:
            await cancelled(self._task)
        self._hang_up()

    async def storm(self) -> None:
        """Publish backwards: once more what was published lately, and new orders."""
        new = [self._order() for _ in range(10)]
        await self._store([*reversed(self._recent)])
        await self._store([(one, version) for one in new for version in reversed(one.missing)])

    async def settled(self, names: set[str], seconds: float = HANG_S) -> None:
        """Wait until none of these orders and customers is unsettled."""

        async def done() -> bool:
            if self._task is not None and self._task.done():
                self._task.result()
            await self._look()
            left = sorted(names & self.unsettled())
            assert not left, f"{len(left)} are not settled: {', '.join(left[:5])}"
            return True

        await eventually(done, seconds)

    async def _flow(self) -> None:
        while not self._over:
            settling = max(len(self.open), GROUP * len(self.owing))
            if len(self._orders) - self._complete + settling < MOST_OPEN:
                await self._store(self._burst())
            await asyncio.sleep(PACE_S)
            await self._look()

    def _order(self) -> Order:
        random, number = self._random, len(self._orders)
        made = Order(
            name=f"o{number:06}",
            customer=f"c{number // GROUP:05}",
            cents=random.randrange(1, 100),
            notes=[ODD if random.random() < ODD_SHARE else FINE for _ in range(random.randrange(3))],
        )
        self._orders.append(made)
        self._groups[made.customer].append(made)
        return made

    def _burst(self) -> list[Sent]:
        random = self._random
        self._bursts += 1
        burst: list[Sent] = []
        for one in [self._order() for _ in range(random.randrange(2, 8))]:
            for version in one.missing:
                if random.random() < LATE_SHARE:
                    self._late.append((self._bursts + random.randrange(1, 10), (one, version)))
                else:
                    burst.append((one, version))
        burst += [sent for due, sent in self._late if due <= self._bursts]
        self._late = deque(held for held in self._late if held[0] > self._bursts)
        if random.random() < 0.5:
            random.shuffle(burst)
        return burst + [sent for sent in self._recent if random.random() < AGAIN_SHARE]

    async def _store(self, sent: list[Sent]) -> None:
        await asyncio.gather(*(self._publish(*one) for one in sent))

    async def _publish(self, order: Order, version: int) -> None:
        """Store one event, once more wherever the stream does not say that it has it."""
        event, js = order.event(version), self._live.nats.jetstream()
        headers = headers_of(event, order.name, version, id=f"{order.name}:{version}")
        subject = self._live.stream.subject("order", order.name)
        while True:
            try:
                await js.publish(subject, msgspec.json.encode(event), headers=headers, timeout=5)
                break
            except (OSError, nats.errors.Error):
                await asyncio.sleep(PACE_S)
        self.published += 1
        self._recent.append((order, version))
        if version not in order.stored:
            order.stored.add(version)
            if not order.missing:
                self._completed(order)

    def _completed(self, order: Order) -> None:
        self._complete += 1
        self.open[order.name] = order
        group = self._groups[order.customer]
        if len(group) == GROUP and not any(one.missing for one in group):
            self.owing[order.customer] = group

    async def _look(self) -> None:
        """Take note of what is settled; servers that are away say nothing."""
        sent = self._sent()
        async with self._looking:
            try:
                orders, sums = await self._rows()
            except AWAY:
                self._hang_up()
                return
        for name, status, cents, history in orders:
            order = self.open.get(name)
            if order and name in sent and order.row == (status, cents, json.loads(history)):
                del self.open[name]
        for customer, number, cents in sums:
            of_all = self.owing.get(customer, [])
            if (number, cents) == (len(of_all), sum(one.cents for one in of_all)):
                self.owing.pop(customer, None)

    async def _rows(self) -> tuple[list[Any], list[Any]]:
        """Return the rows of what is not known to be settled."""
        if self._connection is None:
            self._connection = await asyncpg.connect(self._live.database)
        ask = self._connection.fetch
        return (
            await ask(
                "select order_id, status, cents, history from orders where order_id = any($1)", [*self.open]
            ),
            await ask("select customer, orders, cents from spend where customer = any($1)", [*self.owing]),
        )

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
        self._connection = None

    def _sent(self) -> set[str]:
        known = len(self._done)
        for body, _, _ in [*self._stub.results.values()][known:]:
            self._done.add(json.loads(body)["order_id"])
        return self._done
