"""Consumers that anything may befall, good events among whatever else, and an independent look at the outcome."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from nats.js.errors import NotFoundError
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness, harness
from tests.support.faults import Faults, faulty
from tests.support.load import tuned
from tests.support.oddities import Message
from tests.support.reference_fold import Decisions, Fact, Reckoning, reckon
from tests.support.servers import SCHEMA, Servers, own_ground
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import eventually

from projectionist.core.retry_policy import RetryPolicy
from projectionist.projections import Event, definition

GOOD, VICTIM = "good-", "victim-"
"""How the ids begin of aggregates to which nothing bad happens, and of those that are to fail."""
RETRIES = RetryPolicy(initial_s=0.05, maximum_s=0.2, attempts=12)
"""What fails for a while is tried again for longer than any trouble lasts here, and soon."""
MANY = os.environ.get("RIM_EXAMPLES") == "many"
"""Set by `make soak`."""
_UNDECIDED = Decisions(set(), set(), {}, {}, {})


def examples(*, few: int, many: int) -> settings:
    """Set how many examples are tried."""
    return settings(
        max_examples=many if MANY else few,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
    )


class BoundaryHarness:
    """The shop's consumers behind a proxy. Good aggregates are published here, and must have every row in the end."""

    def __init__(
        self, live: ConsumerHarness, faults: Faults, names: Sequence[str], sequence: str, seed: int
    ) -> None:
        self.live = live
        self.faults = faults
        self.shop: SimpleNamespace = shop(live.stream, sequence=sequence)
        self.consumers: list[type] = [getattr(self.shop, name) for name in names]
        self._sequence = sequence
        self._random = random.Random(seed)
        self._facts: list[Fact] = []
        self._orders = 0
        self.stored: set[int] = set()
        """Every stream sequence that is for the consumers."""
        self.excused: set[int] = set()
        """Those among them that somebody has removed from the stream."""
        self.afterwards = AsyncExitStack()
        """What is to be undone in the end."""

    async def good(self, orders: int = 3) -> None:
        """Publish so many further orders of three events each, shuffled where order is by version."""
        first, self._orders = self._orders, self._orders + orders
        sent = [(n, version) for version in (1, 2, 3) for n in range(first, self._orders)]
        if self._sequence == "contiguous":
            self._random.shuffle(sent)
        for n, version in sent:
            await self._publish(_event(n, version), f"{GOOD}{n:03}", version)

    async def headless(self, orders: int = 2) -> Callable[[], Awaitable[None]]:
        """Publish further orders without their first events, so that they are parked; what publishes those."""
        numbers = range(self._orders, self._orders + orders)
        self._orders += orders
        for n in numbers:
            for version in (2, 3):
                await self._publish(_event(n, version), f"{GOOD}{n:03}", version)

        async def head() -> None:
            for n in numbers:
                await self._publish(_event(n, 1), f"{GOOD}{n:03}", 1)

        return head

    async def _publish(self, event: Event, order: str, version: int) -> None:
        name = f"{order}:{version}"
        seq = await self.live.publish(event, order, version, id=name)
        self.stored.add(seq)
        kind, body = type(event).__event_type__, msgspec.json.encode(event)
        self._facts.append(Fact(seq, ("shop", name), kind, f"order/{order}", version, body))

    async def victims(self, orders: int = 3) -> None:
        """Publish orders, named VICTIM, of which the first event comes last."""
        for n in range(orders):
            order = f"{VICTIM}{n}"
            for version in (2, 3, 1):
                name = f"{order}:{version}"
                event = OrderPlaced(order, 1) if version == 1 else _event(n, version)
                self.stored.add(await self.live.publish(event, order, version, id=name))

    async def narrow(self) -> None:
        """Have the stream take nothing but what is for the consumers, so that it can be widened."""
        name, subject = self.live.stream.name, self.live.stream.subject("order", "*")
        await self.live.nats.jetstream().update_stream(name=name, subjects=[subject])

    async def odd(self, message: Message) -> int | None:
        """Publish bytes as they are; their sequence, None if the server does not take them."""
        client, inbox = self.live.nats, self.live.nats.new_inbox()
        answer = await client.subscribe(inbox, max_msgs=1)
        subject = self.live.stream.subject("order", "").encode() + message.token
        sizes = len(message.head), len(message.head) + len(message.data)
        await client._send_command(
            b"HPUB %s %s %d %d\r\n%s%s\r\n" % (subject, inbox.encode(), *sizes, message.head, message.data)
        )
        await client.flush()
        seq = json.loads((await answer.next_msg(10)).data).get("seq")
        if seq:
            self.stored.add(seq)
        return seq or None

    @asynccontextmanager
    async def running(self, processes: int = 1) -> AsyncIterator[None]:
        """All consumers at work."""
        async with self.live.running(*self.consumers, processes=processes, supervised=True):
            yield

    async def durables(self) -> list[str]:
        """The names of all durables."""
        return [name for (name,) in await inspection.rows(self.live, "consumers", "durable", order="durable")]

    # -- what must be there --------------------------------------------------------------------------------------

    async def drained(self) -> None:
        """Return when everything is as it must be; fail when that takes too long or a consumer has ended."""

        async def whole() -> bool:
            self.alive()
            await self._whole()
            return True

        await eventually(whole)

    def alive(self) -> None:
        """Raise what a consumer has ended with."""
        for task in self.live._tasks:
            if task.done():
                task.result()
                raise RuntimeError("a consumer has ended")

    async def _whole(self) -> None:
        expected = reckon(self._facts, _UNDECIDED)
        for cls in self.consumers:
            await self._compare(cls, expected)
            await self._accounted(cls)
        await self._nothing_waits()

    async def _compare(self, cls: type, expected: Reckoning) -> None:
        match cls.__name__:
            case "Orders":
                rows = await self.live.rows(f"orders where order_id like '{GOOD}%'")
                assert [self._loosely(row) for row in rows] == [self._loosely(row) for row in expected.orders]
                await self._intents(cls, expected)
            case "Spend":
                assert await self.live.rows("spend where customer like 'customer-%'") == expected.spend
            case "Mailer":
                await self._intents(cls, expected)
            case "Journal":
                noted = [
                    (f.identity[1], json.loads(f.body)["text"])
                    for f in self._facts
                    if f.type == "order.noted"
                ]
                assert await self.live.rows(f"journal where event like '{GOOD}%'") == sorted(noted)
        if self._sequence != "unordered":
            assert await self._positions(cls) == {
                name: (v, "clear", 0) for name, v in expected.positions.items()
            }

    def _loosely(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Without order a history is whatever came first."""
        return (row[0], row[2], *sorted(json.loads(row[3]))) if self._sequence == "unordered" else row

    async def _intents(self, cls: type, expected: Reckoning) -> None:
        found = await self.live.fetch(
            "select n.source, n.id from {s}.intents n join {s}.consumers c on c.number = n.consumer"
            f" where c.name = $1 and n.id like '{GOOD}%'",
            definition(cls).name,
        )
        assert Counter(found) == Counter(expected.receipts), f"intents of {cls.__name__}"

    async def _positions(self, cls: type) -> dict[str, tuple[int, str, int]]:
        rows = await self.live.fetch(
            "select p.aggregate, p.version, p.head, p.parked from {s}.positions p"
            f" join {{s}}.consumers c on c.number = p.consumer where c.name = $1 and p.aggregate like 'order/{GOOD}%'",
            definition(cls).name,
        )
        return {name: (version, head, parked) for name, version, head, parked in rows}

    async def _accounted(self, cls: type) -> None:
        """Each message is settled somewhere, or at the broker still as something that has not been."""
        rows = await self.live.fetch(
            """select x.seq from {s}.consumers c cross join lateral (
                select seq from {s}.inbox where consumer = c.number
                union select seq from {s}.duplicates where consumer = c.number
                union select seq from {s}.quarantine where consumer = c.number
            ) x where c.name = $1""",
            definition(cls).name,
        )
        missing = sorted(self.stored - self.excused - {seq for (seq,) in rows})
        assert len(missing) <= await self._unacked(cls), f"{cls.__name__} knows nothing of {missing}"
        assert not {fact.seq for fact in self._facts} & set(missing), f"{cls.__name__}: {missing} still come"

    async def _unacked(self, cls: type) -> int:
        durable = await inspection.durable_name(self.live, definition(cls).name)
        try:
            info = await self.live.nats.jetstream().consumer_info(self.live.stream.name, durable)
        except NotFoundError:
            return 0
        return (info.num_pending or 0) + (info.num_ack_pending or 0)

    async def _nothing_waits(self) -> None:
        good = f"like '%{GOOD}%'"
        assert await self.live.fetch(f"select * from {{s}}.parked where aggregate {good} or id {good}") == []
        assert (
            await self.live.fetch(f"select * from {{s}}.quarantine where aggregate {good} or id {good}") == []
        )
        assert (
            await self.live.fetch(f"select * from {{s}}.incidents where aggregate {good} and closed is null")
            == []
        )


def _event(n: int, version: int) -> Event:
    match version:
        case 1:
            return OrderPlaced(f"customer-{n % 3}", n)
        case 2:
            return OrderNoted(f"note {n}")
        case _:
            return OrderPaid()


@asynccontextmanager
async def boundary(
    servers: Servers, *names: str, sequence: str = "contiguous", seed: int = 0, **policy: Any
) -> AsyncIterator[BoundaryHarness]:
    """A rim on a database and a stream of its own, for the consumers of these names."""
    async with (
        own_ground(servers) as (database, stream),
        harness(servers, database, stream) as live,
        faulty(database, SCHEMA) as faults,
    ):
        made = BoundaryHarness(live, faults, names, sequence, seed)
        await live.migrate(*made.consumers)
        tuned(
            live,
            url=faults.url,
            policy={
                "retry": RETRIES,
                "ack_wait_s": 2.0,
                "gap_fetch_delay_ms": 500,
                "late_s": 0,
                **policy,
            },
        )
        async with made.afterwards:
            yield made
