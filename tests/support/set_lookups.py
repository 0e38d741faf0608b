"""A set whose views look each other up, over orders and customers, and what its tables hold, folded in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace, new_class
from typing import Any, NamedTuple

from tests.support.servers import Stream

from projectionist.outbox import Intent
from projectionist.projections import Delete, Event, Projection, Reactor, ViewSet, lookup, on


class Letter(Intent, provider="stub"):
    """What is written to a customer: which payment it is, and the names and sums of that moment."""

    nth: int
    about: str


class Named(Event, type="customer.named"):
    """A customer's name; an empty one fails."""

    name: str


class Left(Event, type="customer.left"):
    """The end of a customer's row."""


class Ordered(Event, type="order.ordered"):
    """An order of a customer, with what its lines cost; a negative one fails in the view of lines alone."""

    customer: str
    prices: tuple[int, ...]


class Paid(Event, type="order.paid"):
    """A payment; of no cents it fails in the last view alone."""

    customer: str
    cents: int


Happened = tuple[str, int, Event]
"""What happened: aggregate, version and event. Customers and orders are of one type, with names of their own."""


class Folded(NamedTuple):
    """What the tables of the set have to hold."""

    customers: list[tuple[str, str, int]]
    summary: list[tuple[str, str, int, int]]
    lines: list[tuple[str, int, int, str]]
    letters: list[tuple[str, int, str]]
    """Those of an order, with the number of the customer's payment."""


def looking_set(
    stream: Stream, *, order: Iterable[int] = range(4), own_alone: bool = False, **policy: Any
) -> SimpleNamespace:
    """Customers; orders that keep their names; lines that look their order up; and a Reactor that looks up both.

    `own_alone`: orders keep no names, so that all that lines look up is made of their own aggregate's events.
    """
    customer = _customers()
    summary, lines = _own_orders() if own_alone else _orders(customer)
    views = [customer, summary, lines, _letters(customer, summary)]
    keywords = {
        "stream": stream.name,
        "subjects": stream.subject("order", "{aggregate}"),
        "effects": "beginning",
        "views": [views[at] for at in order],
        **policy,
    }
    Shop = new_class("Shop", (ViewSet,), keywords)  # noqa: N806 - a class
    return SimpleNamespace(Shop=Shop, views=views, **{one.__name__: one for one in views})


def _customers() -> Any:
    class Customer(Projection, table="customers", key="customer"):
        customer: str
        name: str = ""
        payments: int = 0

        @on(Named, key=lambda event, envelope: envelope.aggregate_id)
        def named(self, event: Named) -> None:
            if not event.name:
                raise ValueError("nobody")
            self.name = event.name

        @on(Left, key=lambda event, envelope: envelope.aggregate_id)
        def left(self, event: Left) -> Delete:
            return Delete()

        @on(Paid, key="customer")
        def paid(self, event: Paid) -> None:
            self.payments += 1

    return Customer


def _orders(customer: Any) -> tuple[Any, Any]:
    class Summary(Projection, table="summary", key="order_id"):
        order_id: str
        name: str = ""
        lines: int = 0
        paid: int = 0
        customers = lookup(customer, by="customer")

        @on(Ordered)
        def ordered(self, event: Ordered, *, customers: Mapping[str, Any]) -> None:
            self.name = customers[event.customer].name if event.customer in customers else "?"
            self.lines = len(event.prices)

        @on(Paid)
        def was_paid(self, event: Paid) -> None:
            self.paid += event.cents

    return Summary, _lines(Summary)


def _own_orders() -> tuple[Any, Any]:
    class Summary(Projection, table="summary", key="order_id"):
        order_id: str
        name: str = ""
        paid: int = 0

        @on(Ordered)
        def ordered(self, event: Ordered) -> None:
            self.name = event.customer

        @on(Paid)
        def was_paid(self, event: Paid) -> None:
            self.paid += event.cents

    return Summary, _lines(Summary)


def _lines(summary: Any) -> Any:
    class Lines(Projection, table="lines", key=("order_id", "line")):
        order_id: str
        line: int
        cents: int = 0
        of: str = ""
        order = lookup(summary)

        @on(Ordered, each=lambda event: range(len(event.prices)))
        def ordered(self, event: Ordered, *, order: Mapping[str, Any]) -> None:
            self.cents = event.prices[self.line]
            if self.cents < 0:
                raise ValueError("less than nothing")
            self.of = f"{order[self.order_id].name}/{order[self.order_id].paid}"

    return Lines


def _letters(customer: Any, summary: Any) -> Any:
    class Letters(Reactor):
        customers = lookup(customer, by="customer")
        order = lookup(summary)

        @on(Paid)
        def paid(self, event: Paid, *, customers: Mapping[str, Any], order: Mapping[str, Any]) -> Letter:
            if not event.cents:
                raise ValueError("nothing was paid")
            (its,) = order.values()
            payer = customers[event.customer]
            return Letter(payer.payments, f"{payer.name}:{its.name}:{its.paid}")

    return Letters


class Seen(Event, type="visit.seen"):
    """A visit to whatever the aggregate is."""


def visited_set(stream: Stream) -> SimpleNamespace:
    """Orders, and visits to whom has an id that may be an order's: each looks up the order of its own aggregate."""

    class Order(Projection, table="orders_seen", key="order_id"):
        order_id: str
        paid: int = 0

        @on(Paid)
        def was_paid(self, event: Paid) -> None:
            if event.cents > self.paid + 5:
                raise ValueError("too much at once")
            self.paid = event.cents

    class Visit(Projection, table="visits", key="place"):
        place: str
        found: str = ""
        orders = lookup(Order)

        @on(Seen)
        def seen(self, event: Seen, *, orders: Mapping[str, Any]) -> None:
            self.found = ",".join(str(one.paid) for one in orders.values()) + f"/{self.place in orders}"

    keywords = {
        "stream": stream.name,
        "subjects": stream.subject("order", "{aggregate}"),
        "views": [Order, Visit],
    }
    Shop = new_class("Shop", (ViewSet,), keywords)  # noqa: N806 - a class
    return SimpleNamespace(Shop=Shop, Order=Order, Visit=Visit)


def folded(events: Iterable[Happened]) -> Folded:
    """Fold what happened in its order, once each: an aggregate stops at its first event that some view fails on."""
    customers: dict[str, tuple[str, int]] = {}
    summary: dict[str, tuple[str, int, int]] = {}
    lines: dict[tuple[str, int], tuple[int, str]] = {}
    letters: list[tuple[str, int, str]] = []
    stopped: set[str] = set()
    for name, _, event in events:
        if name in stopped:
            continue
        if isinstance(event, Named):
            if not event.name:
                stopped.add(name)
                continue
            customers[name] = event.name, customers.get(name, ("", 0))[1]
        elif isinstance(event, Left):
            customers.pop(name, None)
        elif isinstance(event, Ordered):
            if min(event.prices, default=0) < 0:
                stopped.add(name)
                continue
            found = customers[event.customer][0] if event.customer in customers else "?"
            paid = summary.get(name, ("", 0, 0))[2]
            summary[name] = found, len(event.prices), paid
            lines.update({(name, at): (cents, f"{found}/{paid}") for at, cents in enumerate(event.prices)})
        elif isinstance(event, Paid):
            if not event.cents:
                stopped.add(name)
                continue
            called, payments = customers.get(event.customer, ("", 0))
            customers[event.customer] = called, payments + 1
            found, many, paid = summary.get(name, ("", 0, 0))
            summary[name] = found, many, paid + event.cents
            letters.append((name, payments + 1, f"{called}:{found}:{paid + event.cents}"))
    return Folded(
        sorted((name, *row) for name, row in customers.items()),
        sorted((name, *row) for name, row in summary.items()),
        sorted((*key, *row) for key, row in lines.items()),
        sorted(letters),
    )
