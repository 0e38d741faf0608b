"""The shop that integration tests run: consumers over one stream, some of them able to fail on demand."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import asyncpg
from tests.support.servers import Stream

from projectionist.outbox import Intent
from projectionist.projections import (
    Envelope,
    Event,
    Projection,
    Reactor,
    Refuse,
    Retry,
    SqlProjection,
    Tx,
    on,
)


class OrderPlaced(Event, type="order.placed"):
    """The first event of an order."""

    customer: str
    cents: int


class OrderPaid(Event, type="order.paid"):
    """An order was paid."""

    cents: int = 0


class OrderNoted(Event, type="order.noted"):
    """Text for the history of an order; some of it cannot be digested."""

    text: str


class OrderShipped(Event, type="order.shipped"):
    """No consumer of this shop handles it."""

    carrier: str = ""


class Receipt(Intent, provider="email"):
    """The mail that a payment causes."""

    order_id: str


class Trouble:
    """What handlers stumble over, until a test mends it."""

    def __init__(self) -> None:
        self.poison: set[str] = set()
        self.refused: set[str] = set()
        self.later: set[str] = set()

    def meet(self, text: str) -> None:
        """Raise what the text stands for."""
        if text in self.poison:
            raise ValueError(f"cannot digest {text}")
        if text in self.refused:
            raise Refuse(f"will not have {text}")
        if text in self.later:
            raise Retry(after=0.01)


class OrderRow(Projection):
    """One row an order, with all that happened to it in order; how notes are taken is left open."""

    order_id: str
    status: str = "new"
    cents: int = 0
    history: list[str] = []

    @on(OrderPlaced)
    def placed(self, event: OrderPlaced) -> None:
        """The order begins."""
        self.status, self.cents = "placed", event.cents
        self.history.append("placed")

    @on(OrderPaid)
    def paid(self, event: OrderPaid) -> Receipt:
        """It is paid, and a receipt goes out."""
        self.status = "paid"
        self.history.append("paid")
        return Receipt(order_id=self.order_id)


def shop(
    stream: Stream, *, sequence: Any = "contiguous", baseline: Any = "first", effects: Any = "beginning"
) -> SimpleNamespace:
    """The consumers, on this stream, and what troubles them."""
    trouble = Trouble()
    policy: dict[str, Any] = {
        "stream": stream.name,
        "subjects": stream.subject("order", "{aggregate}"),
        "effects": effects,
        "sequence": sequence,
        "baseline": baseline,
    }

    class Orders(OrderRow, table="orders", key="order_id", **policy):
        """Notes may cause trouble, after they have been taken."""

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.history.append(event.text)
            trouble.meet(event.text)

    class Spend(Projection, table="spend", key="customer", **policy):
        """One row a customer, fed by all orders."""

        customer: str
        orders: int = 0
        cents: int = 0

        @on(OrderPlaced, key="customer")
        def placed(self, event: OrderPlaced) -> None:
            self.orders += 1
            self.cents += event.cents

    class Mailer(Reactor, **policy):
        """A mail for each payment."""

        @on(OrderPaid)
        def paid(self, event: OrderPaid, envelope: Envelope) -> Receipt:
            return Receipt(order_id=envelope.aggregate_id or "")

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            trouble.meet(event.text)

    class Journal(SqlProjection, **policy):
        """Every note, by SQL; some notes do it wrong."""

        tables = {"journal": "event text primary key, note text not null check (length(note) < 20)"}

        @on(OrderNoted)
        async def noted(self, tx: Tx, event: OrderNoted, envelope: Envelope) -> None:
            insert = "insert into {journal} (event, note) values ($1, $2)"
            await tx.execute(insert, envelope.id, event.text)
            await stumble(tx, event.text)
            trouble.meet(event.text)

    return SimpleNamespace(Orders=Orders, Spend=Spend, Mailer=Mailer, Journal=Journal, trouble=trouble)


async def stumble(tx: Tx, text: str) -> None:
    """Do wrong in SQL what the text stands for."""
    match text:
        case "fails":
            await tx.execute("select 1 / 0")
        case "swallows":
            with contextlib.suppress(asyncpg.PostgresError):
                await tx.execute("select 1 / 0")
        case "miscounts":
            await tx.execute("select $1::text", "one", "too many")
        case "locks":
            await tx.execute("select from {journal} for update nowait")
        case "misreads":
            raise FileNotFoundError("no such file")


def mended(stream: Stream, *, sequence: Any = "contiguous", digests: frozenset[str] | None = None) -> type:
    """`Orders` as its next release: no note causes trouble any more, or only those it does not digest."""

    class Orders(
        OrderRow,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="orders",
        key="order_id",
        effects="beginning",
        sequence=sequence,
    ):
        """The next release."""

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            if digests is not None and event.text not in digests:
                raise ValueError(f"still cannot digest {event.text}")
            self.history.append(event.text)

    return Orders
