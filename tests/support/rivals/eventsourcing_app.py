"""eventsourcing's contender: an event store of its own, one projection for the rows and one that sends the receipts.

`write` stores the orders of its standard input, `view` and `mail` project until they are ended. What a provider does
not answer ends `mail`, as an event that is not digested ends `view`: the library starts nothing again by itself.
"""

from __future__ import annotations

import os
import sys
from functools import singledispatchmethod
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import msgspec
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event
from eventsourcing.persistence import Tracking
from eventsourcing.postgres import PostgresTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner
from psycopg.sql import SQL
from tests.support.rivals.ground import RivalGround, told
from tests.support.rivals.load import RivalOrder


class BookedOrder(Aggregate):
    """An order by the library's own means."""

    @event("Placed")
    def __init__(self, name: str, cents: int) -> None:
        self.name, self.cents = name, cents

    @event("Noted")
    def note(self, name: str, text: str) -> None:
        """Note a text."""

    @event("Paid")
    def pay(self, name: str) -> None:
        """Pay."""


class Book(Application[UUID]):
    """Holds the orders."""


class RivalView(PostgresTrackingRecorder):
    """The rows, and beside them how far they are."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.sql_create_statements.append(
            SQL(
                "create table if not exists rival_orders (order_id text primary key, status text not null, "
                "cents int not null, history jsonb not null)"
            ).format()
        )

    def write(self, statement: str, values: tuple[object, ...], tracking: Tracking) -> None:
        """Write one event and the place of it in one transaction."""
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            cursor.execute(SQL(statement), values)


class MailView(PostgresTrackingRecorder):
    """Keeps how far the receipts are."""

    def passed(self, tracking: Tracking) -> None:
        """Note that one event is dealt with."""
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)


PLACED = "insert into rival_orders values (%s, 'placed', %s, '[\"placed\"]')"
NOTED = "update rival_orders set history = history || to_jsonb(%s::text) where order_id = %s"
PAID = (
    "update rival_orders set status = 'paid', history = history || to_jsonb('paid'::text) where order_id = %s"
)


class Orders(Projection[RivalView]):
    """The same rows as everybody's."""

    @singledispatchmethod
    def process_event(self, domain_event: Any, tracking: Tracking) -> None:
        """Ignore what is no event of an order."""

    @process_event.register
    def _(self, domain_event: BookedOrder.Placed, tracking: Tracking) -> None:  # type: ignore[name-defined] # made by @event
        self.view.write(PLACED, (domain_event.name, domain_event.cents), tracking)

    @process_event.register
    def _(self, domain_event: BookedOrder.Noted, tracking: Tracking) -> None:  # type: ignore[name-defined] # made by @event
        self.view.write(NOTED, (told().digest(domain_event.text), domain_event.name), tracking)

    @process_event.register
    def _(self, domain_event: BookedOrder.Paid, tracking: Tracking) -> None:  # type: ignore[name-defined] # made by @event
        self.view.write(PAID, (domain_event.name,), tracking)


class Mail(Projection[MailView]):
    """A receipt for each payment, sent before its place is kept, with the order as its key."""

    @singledispatchmethod
    def process_event(self, domain_event: Any, tracking: Tracking) -> None:
        """Ignore what is no payment."""

    @process_event.register
    def _(self, domain_event: BookedOrder.Paid, tracking: Tracking) -> None:  # type: ignore[name-defined] # made by @event
        body = msgspec.json.encode({"order_id": domain_event.name})
        answer = httpx.post(told().provider, content=body, headers={"idempotency-key": body.decode()})
        answer.raise_for_status()
        self.view.passed(tracking)


def environment(ground: RivalGround) -> dict[str, str]:
    """Return how the library is told where its database is."""
    url = urlsplit(ground.database)
    return {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "POSTGRES_DBNAME": url.path[1:],
        "POSTGRES_HOST": url.hostname or "",
        "POSTGRES_PORT": str(url.port or 5432),
        "POSTGRES_USER": url.username or "",
        "POSTGRES_PASSWORD": url.password or "",
    }


def write(book: Book) -> None:
    """Store the orders of the lines that come, each when it comes."""
    for line in sys.stdin:
        one = msgspec.json.decode(line, type=RivalOrder)
        order = BookedOrder(one.name, one.cents)
        order.note(one.name, one.note)
        order.pay(one.name)
        book.save(order)
        sys.stdout.write("stored\n")
        sys.stdout.flush()


def project(projection: type[Projection[Any]], view: type[PostgresTrackingRecorder]) -> None:
    """Project until the process is ended, or something is raised."""
    with ProjectionRunner(
        application_class=Book, projection_class=projection, view_class=view, env=environment(told())
    ) as runner:
        runner.run_forever()


def main(what: str) -> None:
    """Do one of the three."""
    match what:
        case "write":
            write(Book(environment(told())))
        case "view":
            project(Orders, RivalView)
        case _:
            project(Mail, MailView)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main(sys.argv[1])
