"""What the product runs in a benchmark: one projection, as a user would write it."""

from __future__ import annotations

import os

from projectionist.ops.bench.load import CHANGED, PLACED
from projectionist.projections import Event, Projection, on
from projectionist.runner.app import App

STREAM_VARIABLE = "BENCH_STREAM"
SCHEMA_VARIABLE = "PROJECTIONIST_POSTGRES__SCHEMA"
STREAM = os.environ.get(STREAM_VARIABLE, "BENCH")
"""A scratch stream has a name of its own, and so has the schema: its view goes with it."""


class OrderPlaced(Event, type=PLACED):
    customer: str
    email: str
    total_cents: int
    note: str


class OrderChanged(Event, type=CHANGED):
    total_cents: int
    note: str


class BenchOrders(
    Projection,
    stream=STREAM,
    subjects=f"{STREAM}.order.{{aggregate}}",
    table=f"{os.environ.get(SCHEMA_VARIABLE, 'projectionist')}.bench_orders",
    key="order_id",
):
    """One row per order."""

    order_id: str
    customer: str = ""
    email: str = ""
    total_cents: int = 0
    changes: int = 0

    @on(OrderPlaced)
    def placed(self, event: OrderPlaced) -> None:
        self.customer, self.email, self.total_cents = event.customer, event.email, event.total_cents

    @on(OrderChanged)
    def changed(self, event: OrderChanged) -> None:
        self.total_cents = event.total_cents
        self.changes += 1


app = App(projections=[BenchOrders])
