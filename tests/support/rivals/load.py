"""The orders that every rival is given, and what is to be there in the end. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random

import msgspec
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced

from projectionist.projections import Event

FINE, ODD = "fine", "odd"
"""Notes: what every release digests, and what the first one does not."""

Row = tuple[str, int, list[str]]
"""Status, cents and history of an order."""


class RivalOrder(msgspec.Struct, frozen=True):
    """An order: it is placed, noted and paid, and its payment sends one receipt."""

    name: str
    cents: int
    note: str

    @property
    def events(self) -> list[Event]:
        """Return its events in the order of their versions, from 1 on."""
        return [OrderPlaced("ann", self.cents), OrderNoted(self.note), OrderPaid(self.cents)]

    @property
    def row(self) -> Row:
        """Return its row when all is applied."""
        return "paid", self.cents, ["placed", self.note, "paid"]


class Sent(msgspec.Struct, frozen=True):
    """One message to be published."""

    order: RivalOrder
    version: int

    @property
    def id(self) -> str:
        """Return the event's id, which stays the same when it is published once more."""
        return f"{self.order.name}-{self.version}"


class Hardship(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial has beside its load."""

    name: str
    says: str
    again: float = 0.0
    """The share of events that the producer publishes twice."""
    late: float = 0.0
    """The share of orders whose payment is published before their note."""
    odd: float = 0.0
    """The share of orders whose note the first release does not digest."""
    kills: int = 0
    servers: bool = False
    """PostgreSQL and NATS are killed, once each."""
    unsaid: bool = False
    """The provider does one request in seven without saying so, and refuses one in eleven."""


class Found(msgspec.Struct, frozen=True):
    """What is not as it should be in the end, in orders."""

    rows: int = 0
    """Whose row is missing or wrong."""
    lost: int = 0
    """Whose receipt was never sent."""
    doubled: int = 0
    """Whose receipt was sent more than once."""

    @property
    def clean(self) -> bool:
        """Return whether all is as it should be."""
        return not (self.rows or self.lost or self.doubled)


def orders(random: Random, number: int, hardship: Hardship) -> list[RivalOrder]:
    """Return so many orders."""
    return [
        RivalOrder(f"o{n:05}", random.randrange(1, 100), ODD if random.random() < hardship.odd else FINE)
        for n in range(number)
    ]


def messages(random: Random, made: Iterable[RivalOrder], hardship: Hardship) -> list[list[Sent]]:
    """Return what is published of each order, in turn."""
    bursts = []
    for order in made:
        versions = [1, 3, 2] if random.random() < hardship.late else [1, 2, 3]
        bursts.append(
            [Sent(order, v) for v in versions for _ in range(2 if random.random() < hardship.again else 1)]
        )
    return bursts


def judge(made: Iterable[RivalOrder], rows: Mapping[str, Row], receipts: Counter[str]) -> Found:
    """Compare rows and receipts with what is to be there."""
    listed = list(made)
    return Found(
        rows=sum(rows.get(one.name) != one.row for one in listed),
        lost=sum(not receipts[one.name] for one in listed),
        doubled=sum(receipts[one.name] > 1 for one in listed),
    )
