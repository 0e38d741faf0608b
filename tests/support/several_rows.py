"""Consumers whose events have several rows: orders with their lines, and stock that moves between warehouses."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from tests.support.servers import Stream

from projectionist.outbox import Intent
from projectionist.projections import Delete, Event, Projection, absent, on


class Picked(Intent, provider="stub"):
    """What is asked for with each line."""

    sku: str


class Placed(Event, type="order.placed"):
    """An order with all its lines; a line of fewer than no pieces fails."""

    skus: tuple[str, ...]
    pieces: tuple[int, ...]


class LineAdded(Event, type="line.added"):
    """One more line."""

    line_no: int
    sku: str


class Renamed(Event, type="lines.renamed"):
    """Another article in all lines of an order that have this one."""

    old: str
    new: str


class Cancelled(Event, type="order.cancelled"):
    """The end of all lines."""

    skus: tuple[str, ...] = ()


class StockMoved(Event, type="stock.moved"):
    """Pieces of an article, from one warehouse to another."""

    sku: str
    source: str
    target: str
    pieces: int


class Closed(Event, type="warehouse.closed"):
    """The end of all that a warehouse holds."""

    warehouse: str


def several(stream: Stream) -> SimpleNamespace:
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

        @on(Placed, each=lambda event: range(len(event.skus)))
        def placed(self, event: Placed) -> Picked | None:
            pieces = event.pieces[self.line_no]
            self.sku, self.pieces = event.skus[self.line_no], self.pieces + pieces
            if pieces < 0:
                raise ValueError("fewer than none")
            return Picked(self.sku) if pieces else None

        @on(LineAdded, when=absent)
        def added(self, event: LineAdded) -> None:
            self.sku = event.sku

        @on(Renamed, rows="order_id", when=lambda row, event: row.sku == event.old)
        def renamed(self, event: Renamed) -> None:
            self.sku = event.new

        @on(Cancelled, rows="order_id")
        def cancelled(self, event: Cancelled) -> Iterator[Delete | Picked]:
            yield Picked(f"no {self.sku}")
            yield Delete()

    class Stock(Projection, table="stock", key=("warehouse", "sku"), **policy):
        warehouse: str
        sku: str
        pieces: int = 0
        moves: int = 0

        @on(StockMoved, each=lambda e: [(e.source, e.sku), (e.target, e.sku)], shared=True)
        def moved(self, event: StockMoved) -> None:
            self.pieces += event.pieces if self.warehouse == event.target else -event.pieces
            self.moves += 1

        @on(Closed, rows="warehouse", key="warehouse")
        def closed(self, event: Closed) -> Delete:
            return Delete()

    return SimpleNamespace(Lines=Lines, Stock=Stock)
