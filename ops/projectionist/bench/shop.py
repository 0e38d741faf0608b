"""What the product runs in a benchmark: one projection, as a user would write it."""

from __future__ import annotations

from projectionist.bench.load import CHANGED, PLACED
from projectionist.bench.scene import told
from projectionist.projections import Event, Projection, definition, on

SCENE = told()


class BenchOrderPlaced(Event, type=PLACED):
    customer: str
    email: str
    total_cents: int
    note: str


class OrderChanged(Event, type=CHANGED):
    total_cents: int
    note: str


class BenchOrders(
    Projection,
    stream=SCENE.stream,
    subjects=f"{SCENE.stream}.order.{{aggregate}}",
    table=f"{SCENE.schema}.bench_orders",
    key="order_id",
):
    """One row per order. Its view lies in the scratch schema, and goes with it."""

    order_id: str
    customer: str = ""
    email: str = ""
    total_cents: int = 0
    changes: int = 0

    @on(BenchOrderPlaced)
    def placed(self, event: BenchOrderPlaced) -> None:
        self.customer, self.email, self.total_cents = event.customer, event.email, event.total_cents

    @on(OrderChanged)
    def changed(self, event: OrderChanged) -> None:
        self.total_cents = event.total_cents
        self.changes += 1


ORDERS = definition(BenchOrders)
