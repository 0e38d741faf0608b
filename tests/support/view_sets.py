"""A set of views over one stream of orders, and what its tables hold, folded in plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace, new_class
from typing import Any, NamedTuple

from tests.support.servers import Stream

from projectionist.outbox import Intent
from projectionist.projections import Delete, Event, Projection, Reactor, ViewSet, on

ORDER, LINES, SPEND, RECEIPTS = "Summary", "Lines", "Spend", "Receipts"
"""The views, as the set lists them."""


class Receipt(Intent, provider="stub"):
    """What is asked for when an order is paid."""

    cents: int


class Placed(Event, type="set.placed"):
    """An order with the prices of its lines; a negative one fails in the view of lines alone."""

    customer: str
    prices: tuple[int, ...]


class Paid(Event, type="set.paid"):
    """The payment of an order; of no cents it fails in the last view alone."""

    cents: int


class Cancelled(Event, type="set.cancelled"):
    """The end of an order's lines."""


Happened = tuple[str, int, Event]
"""What happened: aggregate, version and event."""


class Folded(NamedTuple):
    """What the tables of the set have to hold."""

    summary: list[tuple[str, str, int, int]]
    lines: list[tuple[str, int, int]]
    spend: list[tuple[str, int, int]]
    receipts: list[tuple[str, int]]


def view_set(
    stream: Stream,
    *,
    order: Iterable[int] = range(4),
    lines_revision: int = 1,
    edition: int = 1,
    **policy: Any,
) -> SimpleNamespace:
    """Four views and the set of them, which lists them in this order; another `edition` is other code for the same."""

    class Summary(Projection, table="summary", key="order_id"):
        order_id: str
        customer: str = ""
        lines: int = 0
        paid: int = 0

        @on(Placed)
        def placed(self, event: Placed) -> None:
            self.customer, self.lines = event.customer, len(event.prices)

        @on(Paid)
        def was_paid(self, event: Paid) -> Receipt:
            self.paid += event.cents
            return Receipt(event.cents)

        @on(Cancelled)
        def cancelled(self, event: Cancelled) -> None:
            self.lines = 0

    class Lines(Projection, table="lines", key=("order_id", "line"), revision=lines_revision):
        order_id: str
        line: int
        cents: int = 0

        @on(Placed, each=lambda event: range(len(event.prices)))
        def placed(self, event: Placed) -> None:
            self.cents = event.prices[self.line] * edition // edition
            if self.cents < 0:
                raise ValueError("less than nothing")

        @on(Cancelled, rows="order_id")
        def cancelled(self, event: Cancelled) -> Delete:
            return Delete()

    class Spend(Projection, table="spend", key="customer"):
        customer: str
        orders: int = 0
        cents: int = 0

        @on(Placed, key="customer")
        def placed(self, event: Placed) -> None:
            self.orders += 1
            self.cents += sum(event.prices)

    class Receipts(Reactor):
        @on(Paid)
        def paid(self, event: Paid) -> Receipt:
            if not event.cents:
                raise ValueError("nothing was paid")
            return Receipt(event.cents)

    views = [Summary, Lines, Spend, Receipts]
    keywords = {
        "stream": stream.name,
        "subjects": stream.subject("order", "{aggregate}"),
        "effects": "beginning",
        "views": [views[at] for at in order],
        **policy,
    }
    Shop = new_class("Shop", (ViewSet,), keywords)  # noqa: N806 - a class
    return SimpleNamespace(
        Shop=Shop, Summary=Summary, Lines=Lines, Spend=Spend, Receipts=Receipts, views=views
    )


def folded(events: Iterable[Happened]) -> Folded:
    """Fold what happened in its order, once each: an aggregate stops at its first event that some view fails on."""
    summary: dict[str, tuple[str, int, int]] = {}
    lines: dict[tuple[str, int], int] = {}
    spend: dict[str, tuple[int, int]] = {}
    receipts: list[tuple[str, int]] = []
    stopped: set[str] = set()
    for name, _, event in events:
        if name in stopped:
            continue
        if isinstance(event, Placed):
            if min(event.prices, default=0) < 0:
                stopped.add(name)
                continue
            summary[name] = event.customer, len(event.prices), summary.get(name, ("", 0, 0))[2]
            lines.update({(name, line): cents for line, cents in enumerate(event.prices)})
            orders, cents = spend.get(event.customer, (0, 0))
            spend[event.customer] = orders + 1, cents + sum(event.prices)
        elif isinstance(event, Paid):
            if not event.cents:
                stopped.add(name)
                continue
            customer, many, paid = summary.get(name, ("", 0, 0))
            summary[name] = customer, many, paid + event.cents
            receipts += [(name, event.cents)] * 2
        else:
            customer, _, paid = summary.get(name, ("", 0, 0))
            summary[name] = customer, 0, paid
            lines = {key: cents for key, cents in lines.items() if key[0] != name}
    return Folded(
        sorted((name, *row) for name, row in summary.items()),
        sorted((*key, cents) for key, cents in lines.items()),
        sorted((name, *row) for name, row in spend.items()),
        sorted(receipts),
    )
