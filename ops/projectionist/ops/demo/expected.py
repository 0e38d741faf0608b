"""Works out what the read models must hold from the history in plain Python: no code of the product is used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from projectionist.ops.demo.history import DemoEvent

Rows = dict[Any, tuple[Any, ...]]


def expected(facts: Iterable[DemoEvent]) -> dict[str, Rows]:
    """Return rows by table and key."""
    orders: dict[str, dict[str, Any]] = {}
    spend: dict[str, list[int]] = {}
    stock: dict[str, list[int]] = {}
    lines: dict[str, list[tuple[str, int]]] = {}
    for fact in facts:
        event: Any = fact.event
        match fact.event.__event_type__:
            case "order.placed":
                orders[fact.aggregate] = {
                    "customer": event.customer,
                    "status": "placed",
                    "cents": event.cents,
                    "paid": 0,
                    "carrier": "",
                }
                lines[fact.aggregate] = [(line.sku, line.quantity) for line in event.lines]
                totals = spend.setdefault(event.customer, [0, 0])
                totals[0] += 1
                totals[1] += event.cents
            case "payment.received":
                order = orders[fact.aggregate]
                order["paid"] += event.cents
                if order["paid"] >= order["cents"]:
                    order["status"] = "paid"
            case "order.shipped":
                orders[fact.aggregate].update(status="shipped", carrier=event.carrier)
            case "order.cancelled":
                orders[fact.aggregate]["status"] = "cancelled"
                del lines[fact.aggregate]
            case "stock.received":
                stock.setdefault(fact.aggregate, [0, 0])[0] += event.quantity
            case "stock.reserved":
                shelf = stock[fact.aggregate]
                if shelf[0] - shelf[1] >= event.quantity:
                    shelf[1] += event.quantity
    return {
        "order_summary": {key: (key, *order.values()) for key, order in orders.items()},
        "order_lines": {
            (order, no): (order, no, *line) for order, every in lines.items() for no, line in enumerate(every)
        },
        "customer_spend": {key: (key, *totals) for key, totals in spend.items()},
        "inventory": {key: (key, *shelf) for key, shelf in stock.items()},
    }
