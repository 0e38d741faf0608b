"""What happens to orders, and what follows from it: a read model, mails, and webhooks to the warehouse."""

from __future__ import annotations

from typing import Any

from projectionist.api import App, Envelope, Event, Intent, Projection, Reactor, Smtp, Stream, Webhook, on


class OrderPlaced(Event, type="order.placed"):
    """A customer has ordered."""

    email: str
    total_cents: int


class OrderPaid(Event, type="order.paid"):
    """The money is there."""


orders = Stream("ORDERS", "orders.order.{id}", source="shop-api", events=[OrderPlaced, OrderPaid])


class Receipt(Intent, provider="email"):
    """A mail to the customer; projectionist.toml says what it reads."""

    to: str
    order_id: str
    total_cents: int


class OrderSummary(Projection, stream=orders, table="order_summary", key="order_id"):
    """One row per order, for the pages of the shop."""

    order_id: str
    email: str = ""
    total_cents: int = 0
    status: str = "new"

    @on(OrderPlaced)
    def placed(self, event: OrderPlaced) -> None:
        """Begin the row."""
        self.email, self.total_cents, self.status = event.email, event.total_cents, "placed"

    @on(OrderPaid)
    def paid(self, event: OrderPaid) -> Receipt:
        """Move it on, and thank the customer."""
        self.status = "paid"
        return Receipt(to=self.email, order_id=self.order_id, total_cents=self.total_cents)


class PackOrder(Intent, provider="warehouse"):
    """A webhook to the warehouse."""

    order_id: str


class Warehouse(Reactor, stream=orders):
    """Tells the warehouse what to pack; it needs no table."""

    @on(OrderPaid)
    def paid(self, event: OrderPaid, envelope: Envelope) -> PackOrder:
        """Have it packed."""
        return PackOrder(order_id=envelope.aggregate_id or "")


def make_app(settings: Any = None) -> App:
    """Return the app; tests give settings of their own."""
    return App(
        projections=[OrderSummary, Warehouse],
        streams=[orders],
        providers={"email": Smtp, "warehouse": Webhook},
        settings=settings,
    )


app = make_app()
