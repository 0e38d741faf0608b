"""The peer of `bench rebuild`: eventsourcing's ProjectionRunner, over its own event store in the same database.

It makes the same rows; its place is kept in the transaction of each event. Says how long it took, the filling of the
store left out.
"""

from __future__ import annotations

import sys
import time
from functools import singledispatchmethod
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event
from eventsourcing.persistence import Tracking
from eventsourcing.postgres import PostgresTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner
from psycopg.sql import SQL

from projectionist.bench.scene import told
from projectionist.core.settings.settings import Settings, load
from projectionist.ops.cli.output import say_json

CHANGES, AT_ONCE, PATIENCE_S = 9, 200, 600.0


class PeerOrder(Aggregate):
    """The peer's own event-sourced aggregate, with the content of the load."""

    @event("Placed")
    def __init__(self, customer: str, email: str, total_cents: int) -> None:
        self.customer, self.email, self.total_cents = customer, email, total_cents

    @event("Changed")
    def change(self, total_cents: int) -> None:
        """Change the total."""
        self.total_cents = total_cents


class Shop(Application[UUID]):
    """Where the orders are."""


class PeerView(PostgresTrackingRecorder):
    """The rows, and beside them how far they are."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.sql_create_statements.append(
            SQL(
                "create table if not exists bench_peer (order_id uuid primary key, customer text, email text, "
                "total_cents bigint, changes bigint not null default 0)"
            ).format()
        )

    def write(self, statement: SQL, values: tuple[object, ...], tracking: Tracking) -> None:
        """Write one event in one transaction."""
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            cursor.execute(statement, values)


class Orders(Projection[PeerView]):
    """The same projection as the product's."""

    @singledispatchmethod
    def process_event(self, domain_event: Any, tracking: Tracking) -> None:
        """Ignore what is no event of an order."""

    @process_event.register
    def _(self, domain_event: PeerOrder.Placed, tracking: Tracking) -> None:  # type: ignore[name-defined] # made by @event
        one = domain_event
        self.view.write(
            SQL("insert into bench_peer values (%s, %s, %s, %s)"),
            (one.originator_id, one.customer, one.email, one.total_cents),
            tracking,
        )

    @process_event.register
    def _(self, domain_event: PeerOrder.Changed, tracking: Tracking) -> None:  # type: ignore[name-defined] # made by @event
        self.view.write(
            SQL("update bench_peer set total_cents = %s, changes = changes + 1 where order_id = %s"),
            (domain_event.total_cents, domain_event.originator_id),
            tracking,
        )


def environment(settings: Settings) -> dict[str, str]:
    """Return how it is told where its database is."""
    assert settings.postgres.url is not None
    url = urlsplit(settings.postgres.url.reveal())
    return {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "POSTGRES_DBNAME": url.path[1:],
        "POSTGRES_HOST": url.hostname or "",
        "POSTGRES_PORT": str(url.port or 5432),
        "POSTGRES_USER": url.username or "",
        "POSTGRES_PASSWORD": url.password or "",
        "POSTGRES_SCHEMA": told().schema,
    }


def fill(shop: Shop, events: int) -> int:
    """Put orders of ten events each into the store; how many events those are."""
    done = 0
    while done < events:
        orders = [
            PeerOrder(f"customer-{n}", f"c{n}@shop.example", n)
            for n in range(min(AT_ONCE, -(-(events - done) // (CHANGES + 1))))
        ]
        for order in orders:
            for number in range(CHANGES):
                order.change(number)
        shop.save(*orders)
        done += len(orders) * (CHANGES + 1)
    return done


def main(events: int) -> None:
    """Fill, run, and say how long the running took."""
    env = environment(load(None))
    done = fill(Shop(env), events)
    began = time.monotonic()
    with ProjectionRunner(
        application_class=Shop, projection_class=Orders, view_class=PeerView, env=env
    ) as runner:
        runner.wait(done, timeout=PATIENCE_S)
        took = time.monotonic() - began
    say_json({"rebuilt": [{"seconds": took, "events": done}]})


if __name__ == "__main__":
    main(int(sys.argv[1]))
