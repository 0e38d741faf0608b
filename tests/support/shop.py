"""The shop that integration tests run: consumers over one stream, some of them able to fail on demand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.support.lab import Stream

from projectionist.outbox import Intent
from projectionist.projections import Event, Projection, Reactor, Refuse, Retry, on


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


def shop(stream: Stream, *, sequence: Any = "contiguous", baseline: Any = "first") -> SimpleNamespace:
    """The consumers, on this stream, and what troubles them."""
    trouble = Trouble()
    subjects = stream.subject("order", "{aggregate}")

    class Orders(
        Projection,
        stream=stream.name,
        subjects=subjects,
        table="orders",
        key="order_id",
        effects="beginning",
        sequence=sequence,
        baseline=baseline,
    ):
        """One row an order, with all that happened to it in order."""

        order_id: str
        status: str = "new"
        cents: int = 0
        history: list[str] = []

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.status, self.cents = "placed", event.cents
            self.history.append("placed")

        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> Receipt:
            self.status = "paid"
            self.history.append("paid")
            return Receipt(order_id=self.order_id)

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.history.append(event.text)
            trouble.meet(event.text)

    class Spend(
        Projection, stream=stream.name, subjects=subjects, table="spend", key="customer", effects="beginning"
    ):
        """One row a customer, fed by all orders."""

        customer: str
        orders: int = 0
        cents: int = 0

        @on(OrderPlaced, key="customer")
        def placed(self, event: OrderPlaced) -> None:
            self.orders += 1
            self.cents += event.cents

    class Mailer(Reactor, stream=stream.name, subjects=subjects, effects="beginning"):
        """A mail for each payment."""

        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> Receipt:
            return Receipt(order_id="some")

    return SimpleNamespace(Orders=Orders, Spend=Spend, Mailer=Mailer, trouble=trouble)
