"""Holds what the commands `pause` and `resume` have in common."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.output import Exit, show_result

if TYPE_CHECKING:
    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection

    Verb = Callable[[Connection, str, str, Act], Awaitable[bool]]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of a verb on a whole consumer."""
    parser.add_argument("consumer", metavar="CONSUMER", help="its name, as `projectionist status` shows it")
    app_arguments.declare_act(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace, verb: Verb, done: str, already: str) -> int:
    """Do it, and say whether that changed anything."""
    changed = asyncio.run(_run(args, verb))
    show_result(
        args,
        {"consumer": args.consumer, "changed": changed},
        f"{args.consumer}: {done if changed else already}",
    )
    return Exit.DONE


async def _run(args: argparse.Namespace, verb: Verb) -> bool:
    from projectionist.core.operator import Act  # noqa: PLC0415
    from projectionist.ops.cli.database import database  # noqa: PLC0415  every command imports this module

    async with database(args.command.__name__.rpartition(".")[2]) as db:
        return await verb(db.connection, db.schema, args.consumer, Act(args.actor, args.reason))
