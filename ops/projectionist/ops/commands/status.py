"""`projectionist status`: what this project runs on, and whether somebody has to do something about it."""

from __future__ import annotations

import argparse
import asyncio
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.ops.terminal import Exit, say, say_json, styled, table

if TYPE_CHECKING:
    from projectionist.core.settings import Nats, Postgres, Settings

HELP = "show versions, servers and pending migrations"
EXAMPLE = """
projectionist status              for people
projectionist status --json       for programs (exit code 3: something needs attention)
"""


class Part(msgspec.Struct, frozen=True):
    """One thing this project runs on; `problem` is empty where all is well."""

    name: str
    shown: str
    problem: str = ""


class Status(msgspec.Struct, frozen=True):
    """All of them."""

    version: str
    python: str
    parts: list[Part]

    @property
    def well(self) -> bool:
        """True if nothing needs attention."""
        return not any(part.problem for part in self.parts)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Show it for the servers of the settings."""
    from projectionist.ops.servers import settings

    status = asyncio.run(look(settings()))
    if args.json:
        say_json({"well": status.well, **msgspec.to_builtins(status)})
    else:
        show(status)
    return Exit.DONE if status.well else Exit.ATTENTION


async def look(settings: Settings) -> Status:
    """Ask both servers at once; what does not answer is a part with a problem."""
    database, broker = await asyncio.gather(_database(settings.postgres), _broker(settings.nats))
    return Status(version("projectionist"), platform.python_version(), [*database, broker])


def show(status: Status) -> None:
    """Print it for people."""
    rows = [("projectionist", f"{status.version} on Python {status.python}")]
    rows += [(part.name, styled(part.problem, "bad") or part.shown) for part in status.parts]
    say(table(rows))


async def _database(postgres: Postgres) -> list[Part]:
    from projectionist.core.db import connect
    from projectionist.migrations import plan

    try:
        connection = await connect(postgres, application_name="projectionist status")
    except ProjectionistError as problem:
        return [Part("postgres", "", str(problem))]
    found = Part("postgres", f"{connection.get_settings().server_version} at {postgres.url}")
    try:
        pending = [migration.name for migration in await plan(connection, postgres.schema)]
        return [found, _tables(postgres.schema, pending)]
    except ProjectionistError as problem:
        return [found, Part("migrations", "", str(problem))]
    finally:
        await connection.close()


def _tables(schema: str, pending: list[str]) -> Part:
    if not pending:
        return Part("migrations", f"schema {schema} is up to date")
    problem = f"{', '.join(pending)} pending in schema {schema}. Run `projectionist migrate`"
    return Part("migrations", "", problem)


async def _broker(nats: Nats) -> Part:
    from projectionist.core.broker import connect

    try:
        client = await connect(nats, name="projectionist status", within_s=3)
    except ProjectionistError as problem:
        return Part("nats", "", str(problem))
    server = client.connected_server_version
    await client.close()
    return Part("nats", f"{server.major}.{server.minor}.{server.patch} at {', '.join(map(str, nats.url))}")
