"""Consumers whose rows have keys of several columns: lines of an order, and stock in warehouses."""

from __future__ import annotations

from datetime import date
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from tests.support.servers import Stream

from projectionist.projections import Delete, Event, Projection, on


class LineAdded(Event, type="line.added"):
    """A line of an order, which bears what the key of its row needs."""

    line_no: int
    sku: str
    pieces: int = 1


class LineRemoved(Event, type="line.removed"):
    """The end of a line."""

    line_no: int


class Moved(Event, type="stock.moved"):
    """Pieces that came into a warehouse, or left it."""

    warehouse: str
    sku: str
    day: date
    batch: UUID
    pieces: int


def keyed(stream: Stream) -> SimpleNamespace:
    """One class whose rows are an order's own, and one whose rows all aggregates share."""
    policy: dict[str, Any] = {
        "stream": stream.name,
        "subjects": stream.subject("order", "{aggregate}"),
        "effects": "beginning",
    }

    class Lines(Projection, table="lines", key=("order_id", "line_no"), **policy):
        order_id: str
        line_no: int
        sku: str = ""
        pieces: int = 0

        @on(LineAdded)
        def added(self, event: LineAdded) -> None:
            if event.pieces < 0:
                raise ValueError("fewer than none")
            self.sku, self.pieces = event.sku, self.pieces + event.pieces

        @on(LineRemoved)
        def removed(self, event: LineRemoved) -> Delete:
            return Delete()

    class Stock(Projection, table="stock", key=("warehouse", "sku"), **policy):
        warehouse: str
        sku: str
        pieces: int = 0

        @on(Moved, key=("warehouse", "sku"))
        def moved(self, event: Moved) -> None:
            self.pieces += event.pieces

        @on(LineAdded, key=lambda event: ("main", event.sku))
        def added(self, event: LineAdded) -> None:
            self.pieces -= event.pieces

    class Ledger(Projection, table="ledger", key=("batch", "day", "sku", "warehouse"), **policy):
        warehouse: str
        sku: str
        day: date
        batch: UUID
        pieces: int = 0

        @on(Moved, key=("batch", "day", "sku", "warehouse"))
        def moved(self, event: Moved) -> None:
            self.pieces += event.pieces

    return SimpleNamespace(Lines=Lines, Stock=Stock, Ledger=Ledger)
