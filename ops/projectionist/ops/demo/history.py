"""A shop's history, and what a careless producer makes of it on its way to the stream. Pure, and the same each time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import msgspec

from projectionist.ops.demo.shop.events import (
    OrderCancelled,
    OrderLine,
    OrderPlaced,
    OrderShipped,
    PaymentReceived,
    StockReceived,
    StockReserved,
)
from projectionist.projections import Event


class DemoEvent(msgspec.Struct, frozen=True):
    """One event of one aggregate, at its version."""

    kind: str
    aggregate: str
    version: int
    event: Event


class Chances(msgspec.Struct, frozen=True):
    """The chances that things go wrong."""

    duplicated: float = 0.05
    reordered: float = 0.05
    lost: float = 0.02
    """Sent again much later, as a producer does that had no answer."""


def history(orders: int, chance: random.Random) -> list[DemoEvent]:
    """Return what really happened, in the order in which it happened."""
    articles = [f"sku-{n}" for n in range(20)]
    versions: dict[str, int] = {}
    facts: list[DemoEvent] = []

    def happen(kind: str, aggregate: str, event: Event) -> None:
        versions[f"{kind}/{aggregate}"] = version = versions.get(f"{kind}/{aggregate}", 0) + 1
        facts.append(DemoEvent(kind, aggregate, version, event))

    for sku in articles:
        happen("stock", sku, StockReceived(chance.randrange(50, 200)))
    for number in range(orders):
        order, chosen = f"order-{number:06}", chance.sample(articles, chance.choice([1, 1, 2, 3]))
        lines = tuple(OrderLine(sku, chance.randrange(1, 4)) for sku in chosen)
        customer = f"customer-{chance.randrange(max(1, orders // 10)):05}"
        cents = sum(line.quantity * chance.randrange(500, 9_000) for line in lines)
        happen("order", order, OrderPlaced(customer, f"{customer}@example.org", lines, cents))
        for line in lines:
            happen("stock", line.sku, StockReserved(order, line.quantity))
        if chance.random() < 0.1:
            happen("order", order, OrderCancelled())
            continue
        happen("order", order, PaymentReceived(cents // 2))
        happen("order", order, PaymentReceived(cents - cents // 2))
        happen("order", order, OrderShipped(chance.choice(["post", "courier"])))
    return facts


def careless(
    facts: Sequence[DemoEvent], chances: Chances, chance: random.Random
) -> Iterator[tuple[DemoEvent, bool]]:
    """Yield the facts as they are sent; True with each that is sent again although it had arrived."""
    late: list[DemoEvent] = []
    waiting: list[DemoEvent] = []
    for fact in facts:
        if chance.random() < chances.lost:
            late.append(fact)
            continue
        if chance.random() < chances.reordered:
            waiting.append(fact)
            continue
        yield fact, False
        if chance.random() < chances.duplicated:
            yield fact, True
        if waiting and chance.random() < 0.3:
            yield waiting.pop(chance.randrange(len(waiting))), False
        if len(late) > 200:
            yield late.pop(0), False
    for fact in (*waiting, *late):
        yield fact, False
