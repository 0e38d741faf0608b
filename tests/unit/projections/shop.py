"""A small shop, as a user would write it: what most tests here fold."""

from __future__ import annotations

from collections.abc import Iterator

from projectionist.outbox import Intent
from projectionist.outbox.intents.intent import Slotted
from projectionist.projections import (
    Delete,
    Envelope,
    Event,
    Index,
    Projection,
    Reactor,
    Refuse,
    Retry,
    SqlProjection,
    Tx,
    absent,
    on,
)


class OrderPlaced(Event, type="order.placed"):
    order_id: str
    customer: str
    email: str
    total_cents: int


class OrderPaid(Event, type="order.paid"):
    order_id: str


class OrderForgotten(Event, type="order.forgotten"):
    order_id: str


class OrderShipped(Event, type="order.shipped"):
    order_id: str
    parcels: list[str]


class Receipt(Intent, provider="email"):
    to: str
    order_id: str


class OrderSummary(
    Projection,
    stream="SHOP",
    subjects="shop.order.{aggregate}",
    table="order_summary",
    key="order_id",
    indexes=(Index("status"),),
):
    """One row per order."""

    order_id: str
    email: str = ""
    total_cents: int = 0
    status: str = "new"
    parcels: list[str] = []

    @on(OrderPlaced)
    def placed(self, event: OrderPlaced) -> None:
        if event.total_cents < 0:
            raise ValueError("a negative total")
        self.email, self.total_cents, self.status = event.email, event.total_cents, "placed"

    @on(OrderPaid)
    def paid(self, event: OrderPaid) -> Receipt:
        self.status = "paid"
        return Receipt(to=self.email, order_id=self.order_id)

    @on(OrderForgotten)
    def forgotten(self, event: OrderForgotten) -> Delete:
        return Delete()

    @on(OrderShipped)
    def shipped(self, event: OrderShipped, envelope: Envelope) -> Iterator[Receipt | Slotted]:
        self.parcels.extend(event.parcels)
        event.parcels.append("dirt")
        yield Receipt(to=self.email, order_id=envelope.id)
        if not self.email:
            self.parcels.append("more dirt")
            raise Refuse("nobody to tell")
        yield Receipt(to="warehouse", order_id=self.order_id).slot("warehouse")


class CustomerSpend(
    Projection,
    stream="SHOP",
    subjects="shop.order.{aggregate}",
    table="customer_spend",
    key="customer",
):
    customer: str
    orders: int = 0
    cents: int = 0

    @on(OrderPlaced, key="customer")
    def placed(self, event: OrderPlaced) -> None:
        self.orders += 1
        if event.total_cents == 13:
            raise Retry(after=2.5, reason="unlucky")
        self.cents += event.total_cents


class FirstOrder(
    Projection, stream="SHOP", subjects="shop.order.{aggregate}", table="first_order", key="customer"
):
    customer: str
    order_id: str = ""

    @on(OrderPlaced, key="customer", when=absent)
    def placed(self, event: OrderPlaced) -> None:
        self.order_id = event.order_id


class Welcome(Reactor, stream="SHOP", subjects="shop.order.{aggregate}"):
    @on(OrderPlaced, when=lambda _, event: event.total_cents > 0)
    def placed(self, event: OrderPlaced) -> list[Receipt]:
        return [Receipt(to=event.email, order_id=event.order_id)]


class Totals(SqlProjection, stream="SHOP", subjects="shop.order.{aggregate}"):
    tables = {"totals": "customer text primary key, cents bigint not null default 0"}

    @on(OrderPlaced)
    async def placed(self, tx: Tx, event: OrderPlaced) -> None:
        await tx.execute("insert into {totals} values ($1, $2)", event.customer, event.total_cents)
