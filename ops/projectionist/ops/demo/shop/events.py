"""The events of the shop. An event is a fact: typed, frozen, named for good by `type=`."""

from __future__ import annotations

from dataclasses import dataclass

from projectionist.api import Event


@dataclass(frozen=True)
class OrderLine:
    """So many of one article."""

    sku: str
    quantity: int


class OrderPlaced(Event, type="order.placed"):
    """A customer has ordered something."""

    customer: str
    email: str
    lines: tuple[OrderLine, ...]
    cents: int


class PaymentReceived(Event, type="payment.received"):
    """Money for an order has come in."""

    cents: int


class OrderShipped(Event, type="order.shipped"):
    """An order has left the house."""

    carrier: str


class OrderCancelled(Event, type="order.cancelled"):
    """The customer has thought better of it."""


class StockReceived(Event, type="stock.received"):
    """Goods have been put on the shelf."""

    quantity: int


class StockReserved(Event, type="stock.reserved"):
    """Somebody asked for goods to be set aside; whether there are enough is the inventory's business."""

    order_id: str
    quantity: int
