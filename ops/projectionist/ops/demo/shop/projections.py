"""The read models of the shop, and the mails it wants to send."""

from __future__ import annotations

from projectionist.api import Delete, Index, Intent, Projection, Reactor, on
from projectionist.ops.demo.shop.events import (
    OrderCancelled,
    OrderPlaced,
    OrderShipped,
    PaymentReceived,
    StockReceived,
    StockReserved,
)

ORDERS = "shop.order.{aggregate}"
STOCK = "shop.stock.{aggregate}"


class OrderSummary(
    Projection,
    stream="SHOP",
    subjects=ORDERS,
    table="order_summary",
    key="order_id",
    indexes=(Index("customer"),),
    effects="beginning",
):
    """One row an order."""

    order_id: str
    customer: str = ""
    status: str = "new"
    cents: int = 0
    paid_cents: int = 0
    carrier: str = ""

    @on(OrderPlaced)
    def placed(self, event: OrderPlaced) -> None:
        """Begin the order."""
        self.customer, self.cents, self.status = event.customer, event.cents, "placed"

    @on(PaymentReceived)
    def paid(self, event: PaymentReceived) -> None:
        """Add a payment, of some or all of it; a negative one is a mistake, and waits for a person."""
        if event.cents < 0:
            raise ValueError(f"a payment of {event.cents} cents")
        self.paid_cents += event.cents
        if self.paid_cents >= self.cents:
            self.status = "paid"

    @on(OrderShipped)
    def shipped(self, event: OrderShipped) -> None:
        """Note that it is on its way."""
        self.status, self.carrier = "shipped", event.carrier

    @on(OrderCancelled)
    def cancelled(self, event: OrderCancelled) -> None:
        """Note that it is off."""
        self.status = "cancelled"


class OrderLines(
    Projection,
    stream="SHOP",
    subjects=ORDERS,
    table="order_lines",
    key=("order_id", "line_no"),
    effects="beginning",
):
    """One row a line of an order that is not off."""

    order_id: str
    line_no: int
    sku: str = ""
    quantity: int = 0

    @on(OrderPlaced, each=lambda event: range(len(event.lines)))
    def placed(self, event: OrderPlaced) -> None:
        """Write one of its lines."""
        line = event.lines[self.line_no]
        self.sku, self.quantity = line.sku, line.quantity

    @on(OrderCancelled, rows="order_id")
    def cancelled(self, event: OrderCancelled) -> Delete:
        """Remove each line that is there."""
        return Delete()


class CustomerSpend(
    Projection, stream="SHOP", subjects=ORDERS, table="customer_spend", key="customer", effects="beginning"
):
    """One row a customer, fed by the orders of that customer."""

    customer: str
    orders: int = 0
    cents: int = 0

    @on(OrderPlaced, key="customer")
    def placed(self, event: OrderPlaced) -> None:
        """Count each order."""
        self.orders += 1
        self.cents += event.cents


def enough(stock: Inventory, event: StockReserved) -> bool:
    """Return whether so much can be set aside."""
    return stock.on_hand - stock.reserved >= event.quantity


class Inventory(Projection, stream="SHOP", subjects=STOCK, table="inventory", key="sku", effects="beginning"):
    """One row an article; nothing is reserved that is not there."""

    sku: str
    on_hand: int = 0
    reserved: int = 0

    @on(StockReceived)
    def received(self, event: StockReceived) -> None:
        """Put more on the shelf."""
        self.on_hand += event.quantity

    @on(StockReserved, when=enough)
    def set_aside(self, event: StockReserved) -> None:
        """Set aside, if there is enough; otherwise nothing happens."""
        self.reserved += event.quantity


class Receipt(Intent, provider="email"):
    """A mail: written in the transaction of the event it is about, sent by the relay."""

    to: str
    cents: int


class Receipts(Reactor, stream="SHOP", subjects=ORDERS, effects="beginning"):
    """A receipt for each order, and no table."""

    @on(OrderPlaced)
    def placed(self, event: OrderPlaced) -> Receipt:
        """Thank the customer."""
        return Receipt(to=event.email, cents=event.cents)
