"""A SqlProjection whose events say what its handlers do, right and wrong; and a batch of them, run and looked at."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

import asyncpg
from tests.support.batch_driver import BatchDriver
from tests.support.servers import SCHEMA, Stream
from tests.support.shop import Receipt

from projectionist.core.states import Cause
from projectionist.outbox import Slotted
from projectionist.projections import Envelope, Event, SqlProjection, Tx, on
from projectionist.projections.tables import ddl
from projectionist.runner.batch.planning import AggregatePlan
from projectionist.runner.batch.sql_handlers import SqlHandlers
from projectionist.runner.decoding.delivery import Delivery

Action = tuple[str, int, int]
"""What is done, with a key and a value."""
PUT = "insert into {notes} values ($1, $2) on conflict (k) do update set v = excluded.v"
MARK = "insert into {marks} values ($1, $2) on conflict (k) do update set v = {marks}.v * 2 + excluded.v"
PLAIN = {
    "put": PUT,
    "new": "insert into {notes} (k, v) values ($1, $2)",
    "add": "update {notes} set v = v + $2 where k = $1",
    "drop": "delete from {notes} where k = $1 and v < $2",
    "mark": MARK,
    "halve": "update {marks} set v = v / 2 + $2 where k = $1",
    "tally": "insert into {tallies} values ($1, $2) on conflict (k) do update set v = {tallies}.v + excluded.v",
    "trim": "update {tallies} set v = v - $1 where v > $2",
    "part": "insert into {parts} values ($1, $2)",
    "copy": "insert into {marks} select k + $1, v + $2 from {notes} on conflict (k) do update set v = excluded.v",
}
"""Statements that take key and value, by what they do."""
USUAL = [*PLAIN, "both", "count", "mail"]
DEFERRED = [what for what in PLAIN if what != "copy"]
"""What runs when the next statement is looked at, or the batch ends."""
WRONG = ["poison", "swallow", "misuse", "divide"]
ODD = ["tag", "save", "undo", "survive", "reuse", "speak", "peek", "persist"]


class Acted(Event, type="acted"):
    """Actions of a handler that does nothing odd."""

    actions: list[Action]


class Strayed(Event, type="strayed"):
    """Actions of a handler that may do anything."""

    actions: list[Action]


def actor(stream: Stream) -> type[SqlProjection]:
    """The consumer."""

    class Actor(
        SqlProjection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        effects="beginning",
    ):
        tables = {
            "notes": "k int primary key, v int not null check (v < 90)",
            "marks": "k int primary key, v int not null",
            "tallies": "k int primary key, v int not null check (v < 90)",
            "parts": "k int primary key, note int not null references {notes}",
        }

        @on(Acted)
        async def acted(self, tx: Tx, event: Acted, envelope: Envelope) -> list[Slotted]:
            return await acting(tx, event.actions, envelope)

        @on(Strayed)
        async def strayed(self, tx: Tx, event: Strayed, envelope: Envelope) -> list[Slotted]:
            return await acting(tx, event.actions, envelope)

    return Actor


async def acting(tx: Tx, actions: list[Action], envelope: Envelope) -> list[Slotted]:
    """Do what an event says."""
    mails: list[Slotted] = []
    for what, k, v in actions:
        if what in PLAIN:
            await tx.execute(PLAIN[what], k, v)
        elif what == "mail":
            seen = await tx.fetchval("select coalesce(sum(v), 0) from {notes}")
            mails.append(Receipt(order_id=f"{envelope.id}: {seen}").slot(f"mail-{len(mails)}"))
        else:
            await globals()[f"_{what}"](tx, k, v)
    return mails


async def _both(tx: Tx, k: int, v: int) -> None:
    await tx.executemany(MARK, [(k, v), (k + 1, v)])


async def _count(tx: Tx, k: int, v: int) -> None:
    await tx.execute(MARK, k, v + await tx.fetchval("select count(*) from {notes}"))


async def _poison(tx: Tx, k: int, v: int) -> None:
    raise ValueError(f"cannot digest {k}")


async def _wait(tx: Any, k: int, v: int) -> None:
    """Leave the transaction alone for long, as its clock has it."""
    tx._spoken = float("-inf")


async def _swallow(tx: Tx, k: int, v: int) -> None:
    with contextlib.suppress(asyncpg.PostgresError):
        await tx.fetch("select 1 / 0")


async def _misuse(tx: Tx, k: int, v: int) -> None:
    await tx.execute(PUT, "one", v)


async def _divide(tx: Tx, k: int, v: int) -> None:
    await tx.execute("update {marks} set v = v / (v - $2) where k = $1", k, v)


async def _tag(tx: Tx, k: int, v: int) -> None:
    if await tx.execute(PLAIN["add"], k, v) == "UPDATE 0":
        await tx.execute(PUT, k, v)


async def _save(tx: Tx, k: int, v: int) -> None:
    await tx.execute("savepoint here")
    try:
        await tx.execute(PLAIN["new"], k, v)
    except asyncpg.PostgresError:
        await tx.execute("rollback to savepoint here")


async def _undo(tx: Tx, k: int, v: int) -> None:
    """Go back to where another event has been."""
    await tx.execute("rollback to savepoint here")


async def _gather(tx: Tx, k: int, v: int) -> None:
    await asyncio.gather(tx.execute(PUT, k, v), tx.execute(MARK, k, v))


async def _survive(tx: Tx, k: int, v: int) -> None:
    with contextlib.suppress(asyncpg.DataError):
        await tx.execute(PUT, "one", v)
    await tx.execute(PUT, k, v)


async def _reuse(tx: Tx, k: int, v: int) -> None:
    keys = [k]
    await tx.execute("insert into {marks} select k, 1 from unnest($1::int[]) k on conflict do nothing", keys)
    keys.append(k + 1)


async def _speak(tx: Tx, k: int, v: int) -> None:
    try:
        f"it was {await tx.execute(PUT, k, v)}"
    except BaseException:  # noqa: BLE001 it is what the handler does wrong
        await tx.execute(MARK, k, 99)


async def _peek(tx: Tx, k: int, v: int) -> None:
    with contextlib.suppress(asyncpg.DataError):
        await tx.fetch("select from {notes}")


async def _persist(tx: Tx, k: int, v: int) -> None:
    """Swallow what may be another event's error, and go on."""
    await _peek(tx, k, v)
    await tx.execute(MARK, k, v)
    await tx.fetch("select from {marks}")


class Outcome(NamedTuple):
    """What became of a batch."""

    rows: dict[str, list[tuple[int, ...]]]
    failures: dict[int, tuple[int, str | None, str | None]]
    """By course: which of its events failed, and how."""
    intents: list[tuple[str, str, bytes]]


async def outcome(
    driver: BatchDriver,
    deliveries: Sequence[Delivery],
    *,
    singly: bool = False,
    logged: Callable[[str], None] | None = None,
) -> Outcome:
    """Run a batch in a transaction that is undone; `singly`: each event in a savepoint of its own."""
    store, _ = await driver.session.ready()
    connection = store.connection
    model = SqlHandlers(connection, driver.consumer, SCHEMA)
    if singly:
        model._habits.apart.update(
            handler.name for handler in driver.consumer.view.definition.handlers.values()
        )
    async with undone(connection):
        with connection.query_logger(lambda one: logged and logged(one.query)):
            folded = await model.fold(plans(deliveries), None)
        names = ddl.sql_names(driver.consumer.view.definition.tables, SCHEMA, driver.consumer.view.generation)
        rows = {
            name: [tuple(row) for row in await connection.fetch(f"select * from {place} order by 1")]
            for name, place in names.items()
        }
    return Outcome(
        rows=rows,
        failures={
            course: (one.at, one.failed.error_class, one.failed.error)
            for course, one in folded.broken.items()
        },
        intents=[(delivery.id, one.slot, one.body) for delivery, one, _ in folded.intents],
    )


def plans(deliveries: Sequence[Delivery]) -> list[AggregatePlan]:
    """A course for each aggregate."""
    courses: dict[str | None, list[Delivery]] = defaultdict(list)
    for one in deliveries:
        courses[one.aggregate].append(one)
    return [
        AggregatePlan(
            position=None,
            tried=tried,
            held=[],
            stale=[],
            clashes=[],
            more=False,
            due=False,
            cause=Cause.FAILED,
        )
        for tried in courses.values()
    ]


@contextlib.asynccontextmanager
async def undone(connection: Any) -> AsyncIterator[None]:
    """Undo what is done inside."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()
