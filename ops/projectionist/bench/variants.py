"""What the product runs in the variants of `bench live`: one more thing each that users ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from projectionist.bench.load import FIRST_ORDER
from projectionist.bench.shop import SCENE, BenchOrderPlaced, BenchOrders, OrderChanged
from projectionist.outbox import Intent
from projectionist.projections import (
    Envelope,
    Events,
    Projection,
    SqlProjection,
    Tx,
    ViewSet,
    lookup,
    on,
    on_batch,
    reference,
)
from projectionist.runner.app import App

SUBJECTS = f"{SCENE.stream}.order.{{aggregate}}"


class BenchSpend(
    Projection, stream=SCENE.stream, subjects=SUBJECTS, table=f"{SCENE.schema}.bench_spend", key="order_id"
):
    """A second consumer of the same events."""

    order_id: str
    total_cents: int = 0

    @on(BenchOrderPlaced)
    def placed(self, event: BenchOrderPlaced) -> None:
        self.total_cents = event.total_cents

    @on(OrderChanged)
    def changed(self, event: OrderChanged) -> None:
        self.total_cents = event.total_cents


def _spend(number: int) -> type[Projection]:
    """Return another consumer of the same kind."""

    class More(
        BenchSpend,
        stream=SCENE.stream,
        subjects=SUBJECTS,
        table=f"{SCENE.schema}.bench_spend_{number}",
        key="order_id",
        name=f"BenchSpend{number}",
    ):
        pass

    return More


class BenchLines(
    Projection,
    stream=SCENE.stream,
    subjects=SUBJECTS,
    table=f"{SCENE.schema}.bench_lines",
    key=("order_id", "line_no"),
):
    """Five rows an event, with the columns of BenchOrders."""

    order_id: str
    line_no: int
    customer: str = ""
    email: str = ""
    total_cents: int = 0
    changes: int = 0

    @on(BenchOrderPlaced, each=lambda event: range(5))
    def placed(self, event: BenchOrderPlaced) -> None:
        self.customer, self.email, self.total_cents = event.customer, event.email, event.total_cents

    @on(OrderChanged, each=lambda event: range(5))
    def changed(self, event: OrderChanged) -> None:
        self.total_cents = event.total_cents
        self.changes += 1


@dataclass(frozen=True)
class BenchRate:
    """A row of a table of others."""

    band: int
    share: int


def _band(event: BenchOrderPlaced | OrderChanged) -> int:
    return event.total_cents % 1000


class BenchRated(
    Projection, stream=SCENE.stream, subjects=SUBJECTS, table=f"{SCENE.schema}.bench_rated", key="order_id"
):
    """The rows of BenchOrders, and one row that is looked up an event."""

    order_id: str
    customer: str = ""
    email: str = ""
    total_cents: int = 0
    changes: int = 0
    rates = lookup(reference(f"{SCENE.schema}.bench_rates", BenchRate, key="band"), by=_band)

    @on(BenchOrderPlaced)
    def placed(self, event: BenchOrderPlaced, *, rates: Mapping[int, BenchRate]) -> None:
        self.customer, self.email = event.customer, event.email
        self.total_cents = event.total_cents + rates[_band(event)].share

    @on(OrderChanged)
    def changed(self, event: OrderChanged, *, rates: Mapping[int, BenchRate]) -> None:
        self.total_cents = event.total_cents + rates[_band(event)].share
        self.changes += 1


class BenchIntent(Intent, provider="events"):
    """One side effect an event."""

    order: str
    total_cents: int


class BenchTelling(
    Projection,
    stream=SCENE.stream,
    subjects=SUBJECTS,
    table=f"{SCENE.schema}.bench_telling",
    key="order_id",
    effects="beginning",
):
    """The rows of BenchOrders, and an intent an event."""

    order_id: str
    customer: str = ""
    email: str = ""
    total_cents: int = 0
    changes: int = 0

    @on(BenchOrderPlaced)
    def placed(self, event: BenchOrderPlaced) -> BenchIntent:
        self.customer, self.email, self.total_cents = event.customer, event.email, event.total_cents
        return BenchIntent(self.order_id, event.total_cents)

    @on(OrderChanged)
    def changed(self, event: OrderChanged) -> BenchIntent:
        self.total_cents = event.total_cents
        self.changes += 1
        return BenchIntent(self.order_id, event.total_cents)


class BenchSql(SqlProjection, stream=SCENE.stream, subjects=SUBJECTS):
    """A statement an event."""

    tables: ClassVar = {
        f"{SCENE.schema}.bench_totals": "order_id text primary key, total_cents bigint not null"
    }

    @on(BenchOrderPlaced)
    async def placed(self, tx: Tx, event: BenchOrderPlaced, envelope: Envelope) -> None:
        await tx.execute(
            "insert into {bench_totals} values ($1, $2)", envelope.aggregate_id, event.total_cents
        )

    @on(OrderChanged)
    async def changed(self, tx: Tx, event: OrderChanged, envelope: Envelope) -> None:
        await tx.execute(
            "update {bench_totals} set total_cents = $2 where order_id = $1",
            envelope.aggregate_id,
            event.total_cents,
        )


class BenchSqlRuns(SqlProjection, stream=SCENE.stream, subjects=SUBJECTS):
    """A statement a run of events."""

    tables: ClassVar = {
        f"{SCENE.schema}.bench_run_totals": "order_id text primary key, total_cents bigint not null"
    }

    @on_batch(BenchOrderPlaced, OrderChanged)
    async def seen(self, tx: Tx, events: Events[BenchOrderPlaced | OrderChanged]) -> None:
        await tx.execute(
            """
            insert into {bench_run_totals}
            select distinct on (order_id) order_id, total_cents
            from unnest($1::text[], $2::bigint[]) with ordinality as e (order_id, total_cents, place)
            order by order_id, place desc
            on conflict (order_id) do update set total_cents = excluded.total_cents
            """,
            events.aggregate_ids,
            events.column("total_cents"),
        )


class BenchOrdersView(BenchOrders, table=f"{SCENE.schema}.bench_orders_view", key="order_id"):
    """BenchOrders as a view of a set."""


def _spend_view(number: int) -> type[Projection]:
    """Return a view that does what BenchSpend does."""

    class MoreViews(
        BenchSpend,
        table=f"{SCENE.schema}.bench_spend_view_{number}",
        key="order_id",
        name=f"BenchSpendView{number}",
    ):
        pass

    return MoreViews


def _neighbour(event: BenchOrderPlaced | OrderChanged) -> str:
    """Return the id of another order, which the batch holds by chance alone."""
    return str(FIRST_ORDER + event.total_cents % 1000)


class BenchNeighbourView(Projection, table=f"{SCENE.schema}.bench_neighbour_view", key="order_id"):
    """The rows of BenchSpend, and another order's row that is looked up an event."""

    order_id: str
    total_cents: int = 0
    orders = lookup(BenchOrdersView, by=_neighbour)

    @on(BenchOrderPlaced)
    def placed(self, event: BenchOrderPlaced, *, orders: Mapping[str, BenchOrdersView]) -> None:
        if (other := _neighbour(event)) in orders:
            self.total_cents = event.total_cents + orders[other].changes

    @on(OrderChanged)
    def changed(self, event: OrderChanged, *, orders: Mapping[str, BenchOrdersView]) -> None:
        if (other := _neighbour(event)) in orders:
            self.total_cents = event.total_cents + orders[other].changes


def _set_of(*views: type[Projection]) -> App:
    """Return one consumer for these views."""

    class BenchSet(ViewSet, stream=SCENE.stream, subjects=SUBJECTS, views=views):
        pass

    return App(projections=[BenchSet])


plain = App(projections=[BenchOrders])
two = App(projections=[BenchOrders, BenchSpend])
four = App(projections=[BenchOrders, BenchSpend, _spend(2), _spend(3)])
views_two = _set_of(BenchOrdersView, _spend_view(1))
views_four = _set_of(BenchOrdersView, *(_spend_view(number) for number in (1, 2, 3)))
views_neighbour = _set_of(BenchOrdersView, BenchNeighbourView)
sql = App(projections=[BenchSql])
sql_runs = App(projections=[BenchSqlRuns])
lines = App(projections=[BenchLines])
looking_up = App(projections=[BenchRated])
intents = App(projections=[BenchTelling])
