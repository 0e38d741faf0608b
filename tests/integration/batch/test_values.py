"""A row does not depend on how events fell into batches: what a handler sees is what PostgreSQL gives back."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from uuid import UUID

import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import Stream
from tests.support.shop import OrderPaid, OrderPlaced

from projectionist.projections import Delete, Event, Projection, on

pytestmark = pytest.mark.asyncio


class Colour(Enum):
    """A column of named values."""

    RED = "red"
    BLUE = "blue"


class Changed(Event, type="thing.changed"):
    """Something of every kind of column."""

    at: datetime
    amount: Decimal
    colour: Colour
    owner: UUID
    tags: dict[str, list[int]]
    ratio: float


class Named(Event, type="thing.named"):
    """It repeats the key in its body."""

    thing_id: str


def things(stream: Stream) -> type:
    """One row a thing, which builds on what the row held before."""

    class Things(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="things",
        key="thing_id",
    ):
        thing_id: str
        at: datetime = datetime(2000, 1, 1, tzinfo=UTC)
        days: list[str] = []
        day: date = date(2000, 1, 1)
        amount: Decimal = Decimal(0)
        colours: list[str] = []
        colour: Colour = Colour.RED
        owner: UUID | None = None
        tags: dict[str, list[int]] = {}
        ratio: float = 0.0
        raw: bytes = b""

        @on(Changed)
        def changed(self, event: Changed) -> None:
            self.days.append(self.at.isoformat())  # what the last event left, as this one sees it
            self.day = self.at.date()
            self.at = event.at
            self.amount += event.amount
            self.colours.append(self.colour.name)
            self.colour = event.colour
            self.owner = event.owner
            self.tags = {**self.tags, **event.tags}
            self.ratio = self.ratio / 3 + event.ratio
            self.raw += event.owner.bytes[:1]

        @on(Named)
        def named(self, event: Named) -> None:
            self.days.append("named")

    return Things


def history() -> list[Event]:
    """Values that are written one way and read back another."""
    return [
        Changed(
            at=datetime.fromisoformat(f"2026-01-0{n}T00:30:00.{n}+0{n}:00"),
            amount=Decimal(f"{n}.10"),
            colour=Colour.BLUE if n % 2 else Colour.RED,
            owner=UUID(int=n << 120),
            tags={f"k{n}": [n], "same": [n, n]},
            ratio=1 / n,
        )
        for n in range(1, 8)
    ]


@pytest.mark.parametrize("size", [1, 2, 3])
async def test_a_row_is_the_same_whether_its_events_came_in_one_batch_or_in_many(
    live: ConsumerHarness, size: int
) -> None:
    cls = things(live.stream)
    await live.migrate(cls)
    async with batch_drivers(live, cls) as (driver,):
        events = list(enumerate(history(), 1))
        await driver.settle(*(driver.read(event, "whole", version) for version, event in events))
        for start in range(0, len(events), size):
            part = events[start : start + size]
            await driver.settle(*(driver.read(event, "parts", version) for version, event in part))

    parts, whole = await live.rows("things")
    assert (parts[0], whole[0]) == ("parts", "whole")
    assert parts[1:] == whole[1:]


async def test_a_key_in_the_body_that_is_not_the_aggregate_fails_the_event(live: ConsumerHarness) -> None:
    """The position's lock covers the aggregate's own row and no other."""
    cls = things(live.stream)
    await live.migrate(cls)
    async with batch_drivers(live, cls) as (driver,):
        await driver.settle(
            driver.read(Named("a"), "a", 1),
            driver.read(Named("elsewhere"), "b", 1),
            driver.read(Named("c"), "c", 1),
        )

    assert [row[0] for row in await live.rows("things")] == ["a", "c"]
    assert await live.head(cls, "order/b") == (0, "waiting", 1)
    assert "another value in the event" in await inspection.parked_error(live)


@pytest.mark.parametrize("size", [1, 2, 5], ids=["one by one", "two by two", "at once"])
async def test_a_shared_row_is_deleted_and_begins_again_from_its_defaults(
    live: ConsumerHarness, size: int
) -> None:
    cls = carts(live.stream)
    await live.migrate(cls)
    async with batch_drivers(live, cls, drivers=2) as drivers:
        events: list[Event] = [OrderPlaced("ann", 1), OrderPaid(1), OrderPlaced("ann", 5), OrderPaid(5)]
        events.append(OrderPlaced("ann", 9))
        for start in range(0, len(events), size):
            driver = drivers[start % 2]
            part = enumerate(events[start : start + size], start + 1)
            await driver.settle(*(driver.read(event, f"o{n}", 1, seq=n) for n, event in part))
        assert await live.rows("carts") == [("ann", 1, 9)]
        await drivers[0].settle(drivers[0].read(OrderPaid(9), "o9", 1))

    assert await live.rows("carts") == []


def carts(stream: Stream) -> type:
    """One row while there is anything to pay; payments name no customer, so there is one customer only."""

    class Carts(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="carts",
        key="customer",
    ):
        customer: str
        orders: int = 0
        cents: int = 0

        @on(OrderPlaced, key="customer")
        def placed(self, event: OrderPlaced) -> None:
            self.orders += 1
            self.cents += event.cents

        @on(OrderPaid, key=lambda event: "ann")
        def paid(self, event: OrderPaid) -> Delete | None:
            self.cents -= event.cents
            return Delete() if self.cents == 0 else None

    return Carts
