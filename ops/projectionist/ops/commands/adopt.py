"""`projectionist adopt`: read a stream that is not the one read so far, or run on a database that was a copy."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, say, say_json

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Settings
    from projectionist.runner.stream_guard.adopt_database import AdoptionResult
    from projectionist.runner.stream_guard.adopt_stream import Adopted

TOPIC = Topic.DECIDE
HELP = (
    "decide that a stream which was replaced or restored is to be read, or that this database is the real one"
)
EXAMPLE = """
projectionist adopt OrderSummary --reason "SHOP was restored from Monday's backup"
projectionist adopt --database --reason "moved to the new cluster; the old one is shut down"
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("consumer", metavar="CONSUMER", nargs="?", help="the consumer that was halted")
    parser.add_argument(
        "--database", action="store_true", help="the whole schema: from now on this database reads and sends"
    )
    app_arguments.declare_act(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Adopt it, and say what that means."""
    from projectionist.core.operator import Act
    from projectionist.ops.cli.find_servers import settings

    if args.database == bool(args.consumer):
        raise UsageError(
            "adopt one consumer's stream, or the database", remedy="Name CONSUMER, or --database"
        )
    act = Act(args.actor, args.reason)
    if args.database:
        return _show(asyncio.run(_take(settings(), act)), args)
    adopted = asyncio.run(_adopt(settings(), args.consumer, act))
    if args.json:
        say_json(msgspec.to_builtins(adopted))
        return Exit.DONE
    say(f"{adopted.consumer} reads stream {adopted.stream}: {adopted.found}.")
    if adopted.again:
        say(
            f"It is incarnation {adopted.incarnation}, read from its first message; known events are not applied again."
        )
    return Exit.DONE


def _show(taken: AdoptionResult, args: argparse.Namespace) -> int:
    if args.json:
        say_json(msgspec.to_builtins(taken))
        return Exit.DONE
    say(f"The schema is at home in {taken.database}; runners and relays go on within seconds.")
    for durable in taken.durables:
        say(f"Durable {durable} was another database's: what runs there halts.")
    return Exit.DONE


async def _adopt(settings: Settings, consumer: str, act: Act) -> Adopted:
    from projectionist.runner.stream_guard.adopt_stream import Adoption

    async with _servers(settings) as (connection, client):
        return await Adoption(connection, client, settings.postgres.schema).adopt(consumer, act)


async def _take(settings: Settings, act: Act) -> AdoptionResult:
    from projectionist.runner.stream_guard.adopt_database import Takeover

    async with _servers(settings) as (connection, client):
        return await Takeover(connection, client, settings.postgres.schema).adopt(act)


@asynccontextmanager
async def _servers(settings: Settings) -> AsyncIterator[tuple[Connection, Client]]:
    from projectionist.core.nats import connections
    from projectionist.core.postgres import connections as db

    connection = await db.connect(settings.postgres, application_name="projectionist adopt")
    try:
        client = await connections.connect(settings.nats, name="projectionist adopt")
        try:
            yield connection, client
        finally:
            await client.close()
    finally:
        await connection.close()
