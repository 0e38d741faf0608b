"""`projectionist migrate`: bring the database to what this release needs."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from projectionist.ops.terminal import Exit, say, say_json

if TYPE_CHECKING:
    from projectionist.core.settings import Settings
    from projectionist.migrations import Migration

HELP = "create or change the tables this release needs, or show what that would do"
EXAMPLE = """
projectionist migrate             apply what is pending
projectionist migrate --plan      print the SQL, change nothing
projectionist migrate --check     is anything pending? (exit code 3 if so)
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--plan", action="store_true", help="print the SQL that would run, change nothing")
    instead.add_argument("--check", action="store_true", help="say what is pending, change nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it on the database of the settings."""
    from projectionist.ops.servers import settings

    return asyncio.run(_run(settings(), args))


async def _run(settings: Settings, args: argparse.Namespace) -> int:
    from projectionist.core.db import connect
    from projectionist.migrations import migrate, plan

    schema = settings.postgres.schema
    connection = await connect(settings.postgres, application_name="projectionist migrate")
    try:
        if args.plan or args.check:
            pending = await plan(connection, schema)
            return _check(pending, schema, args) if args.check else _plan(pending, schema, args)
        applied = await migrate(connection, schema)
        return _applied(applied, schema, args)
    finally:
        await connection.close()


def _plan(pending: list[Migration], schema: str, args: argparse.Namespace) -> int:
    from projectionist.migrations import script

    if args.json:
        steps = [{"name": each.name, "sql": script(each, schema)} for each in pending]
        say_json({"schema": schema, "pending": steps})
    elif not pending:
        say(f"Nothing is pending in schema {schema}.")
    else:
        say("\n\n".join(script(each, schema) for each in pending))
    return Exit.DONE


def _check(pending: list[Migration], schema: str, args: argparse.Namespace) -> int:
    if args.json:
        say_json({"schema": schema, "pending": [each.name for each in pending]})
    elif pending:
        say("\n".join(f"pending in schema {schema}: {each.name}" for each in pending))
    else:
        say(f"Nothing is pending in schema {schema}.")
    return Exit.ATTENTION if pending else Exit.DONE


def _applied(applied: list[Migration], schema: str, args: argparse.Namespace) -> int:
    if args.json:
        say_json({"schema": schema, "applied": [each.name for each in applied]})
    elif applied:
        say("\n".join(f"applied to schema {schema}: {each.name}" for each in applied))
    else:
        say(f"Schema {schema} is up to date.")
    return Exit.DONE
