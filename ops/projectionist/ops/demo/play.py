"""Plays the demo on given servers: publishes a careless history, runs the shop beside it, compares the result."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from nats.js.errors import NotFoundError

from projectionist.core import cloudevents
from projectionist.core.nats import connections
from projectionist.core.postgres import connections as db
from projectionist.core.postgres.statements import Statements
from projectionist.ops.demo.children import children
from projectionist.ops.demo.expected import expected
from projectionist.ops.demo.history import Chances, DemoEvent, careless, history
from projectionist.ops.demo.shop.mailbox import mails
from projectionist.ops.demo.shop.projections import OrderSummary
from projectionist.outbox.publishing.publisher import Draft, Publisher
from projectionist.projections import definition
from projectionist.runner.history.progress import Logged
from projectionist.runner.rebuild.rebuild import Rebuild

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Settings

APP = "projectionist.ops.demo.shop.app:app"
STREAM, SUBJECTS = "SHOP", "shop.>"
CHUNK = 500


class DemoResult(msgspec.Struct, frozen=True):
    """The end of the demo."""

    sent: int
    seconds: float
    differing: dict[str, int]
    """Rows that are not as the independent fold says, by table; all zero where the product keeps its word."""
    rows: dict[str, int]
    outcomes: dict[str, int]
    rebuilt: int = 0
    """Events folded anew beside the runners, into the generation that is compared."""
    mails: int = 0
    """What the provider was asked to send, before the rebuild."""
    doubled: int = 0
    """Mails it was asked to send again, by then or by the end of the rebuild."""


async def play(
    settings: Settings,
    orders: int,
    seed: int,
    look: Callable[[Connection], Awaitable[None]],
) -> DemoResult:
    """Run everything from an empty stream to the comparison; `look` is called again and again while it goes on."""
    facts = history(orders, random.Random(seed))  # noqa: S311 - the same history each time
    client = await connections.connect(settings.nats, name="projectionist demo")
    connection = await db.connect(settings.postgres, application_name="projectionist demo")
    begun = time.monotonic()
    try:
        await client.jetstream().add_stream(name=STREAM, subjects=[SUBJECTS])
        with tempfile.NamedTemporaryFile() as sent_mails:
            path = Path(sent_mails.name)
            async with children(settings, APP, path), anyio.create_task_group() as tasks:
                tasks.start_soon(_looking, settings, look)
                sent = await _publish(client, facts, seed)
                await _settled(client, connection, settings.postgres.schema)
                before = len(mails(path))
                rebuilt = await _rebuild(settings, client)
                tasks.cancel_scope.cancel()
            doubled = len(mails(path)) - len({mail.key for mail in mails(path)})
        seconds = time.monotonic() - begun
        await look(connection)
        outcome = await _compared(connection, settings.postgres.schema, facts, sent, seconds)
        return msgspec.structs.replace(outcome, rebuilt=rebuilt, mails=before, doubled=doubled)
    finally:
        with anyio.move_on_after(5, shield=True):
            await client.close()
            await connection.close()


async def _rebuild(settings: Settings, client: Client) -> int:
    """Rebuild the orders beside the runners: no mail may be written for it. How many events it folded."""
    one = definition(OrderSummary)
    done = await Rebuild(one, settings, client, Logged(one.name)).run()
    return done.events + done.caught_up


async def _looking(settings: Settings, look: Callable[[Connection], Awaitable[None]]) -> None:
    """Look over a connection of its own, since one runs a statement at a time."""
    connection = await db.connect(settings.postgres, application_name="projectionist demo view")
    try:
        while True:
            await look(connection)
            await anyio.sleep(0.5)
    finally:
        with anyio.move_on_after(2, shield=True):
            await connection.close()


async def _publish(client: Client, facts: Sequence[DemoEvent], seed: int) -> int:
    """Send the careless version of the history, chunk by chunk; how many messages that were."""
    sent = 0
    async with (
        Publisher(client, source="shop", subject="shop.{type}.{aggregate}") as publisher,
    ):
        chunk: list[Draft] = []
        for fact, again in careless(facts, Chances(), random.Random(seed)):  # noqa: S311 - as above
            chunk.append(draft(publisher, fact, again=again))
            if len(chunk) == CHUNK:
                await publisher.publish_many(chunk)
                sent, chunk = sent + len(chunk), []
        await publisher.publish_many(chunk)
    return sent + len(chunk)


def draft(
    publisher: Publisher, fact: DemoEvent, *, again: bool = False, correlation: str | None = None
) -> Draft:
    """Return what is sent for a fact; `again`: by a producer that has forgotten that it was."""
    made = publisher.draft(
        fact.event,
        aggregate=f"{fact.kind}/{fact.aggregate}",
        version=fact.version,
        id=f"{fact.kind}-{fact.aggregate}-{fact.version}",
        correlation=correlation,
    )
    if not again:
        return made
    # A producer without message ids: the stream cannot know that it has this event already.
    careless_headers = {name: value for name, value in made.headers.items() if name != cloudevents.MESSAGE_ID}
    return msgspec.structs.replace(made, headers=careless_headers)


async def _settled(client: Client, connection: Connection, schema: str) -> None:
    """Wait until the broker has nothing left for any consumer and nothing of it is unacked, parked or unsent."""
    sql = Statements("projectionist.ops", schema)
    while True:
        read_up = await _read_up(client, await connection.fetch(sql["select_durables"]))
        waiting = [
            await connection.fetchval(sql[name])
            for name in ("count_waiting_aggregates", "count_open_intents")
        ]
        if read_up and not any(waiting):
            return
        await anyio.sleep(0.1)


async def _read_up(client: Client, durables: Sequence[Record]) -> bool:
    try:
        states = [await client.jetstream().consumer_info(row["stream"], row["durable"]) for row in durables]
    except NotFoundError:  # its process is still starting
        return False
    return not any(state.num_pending or state.num_ack_pending for state in states)


async def _compared(
    connection: Connection, schema: str, facts: Sequence[DemoEvent], sent: int, seconds: float
) -> DemoResult:
    differing: dict[str, int] = {}
    rows: dict[str, int] = {}
    for table, wanted in expected(facts).items():
        found: dict[Any, tuple[Any, ...]] = {
            r[:2] if table == "order_lines" else r[0]: r
            for r in map(tuple, await connection.fetch(f'select * from public."{table}"'))
        }
        rows[table] = len(found)
        differing[table] = sum(found.get(key) != wanted.get(key) for key in found.keys() | wanted.keys())
    counted = await connection.fetch(Statements("projectionist.ops", schema)["count_outcomes"])
    return DemoResult(
        sent=sent,
        seconds=seconds,
        differing=differing,
        rows=rows,
        outcomes={row["outcome"]: row["n"] for row in counted},
    )
