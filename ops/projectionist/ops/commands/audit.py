"""`projectionist audit`: who has done what, when and why."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, lines, show_result

if TYPE_CHECKING:
    from projectionist.ops.cli.database import Database

TOPIC = Topic.LOOK
HELP = "show the decisions and actions of operators: who, what, when, why"
EXAMPLE = """
projectionist audit                                  the newest fifty acts
projectionist audit --consumer OrderSummary --action skip
projectionist audit --about order/7                  every act on an aggregate, event or intent
projectionist audit --who ann --newer 86400 --json
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--consumer", metavar="NAME", help="only acts on this projection or reactor")
    parser.add_argument("--who", metavar="NAME", help="only acts of this person or process")
    parser.add_argument("--action", help="only this act, as the list shows it")
    parser.add_argument("--about", metavar="TEXT", help="only acts on what holds this text")
    parser.add_argument("--newer", type=float, metavar="SECONDS", help="only acts of so many last seconds")
    parser.add_argument("--limit", type=int, default=50, help="so many, the newest (default: 50)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Read it from the database of the settings."""
    if args.limit < 1:
        raise UsageError("--limit is at least one")
    rows = asyncio.run(_read(args))
    show_result(
        args,
        {"acts": rows},
        lines([_line(row) for row in rows], ("at", "who", "action", "object", "reason", "detail")),
    )
    return Exit.DONE


async def _read(args: argparse.Namespace) -> list[dict[str, Any]]:
    from projectionist.ops.cli.database import database

    async with database("audit") as db:
        return await read(db, args.consumer, args.who, args.action, args.about, args.newer, args.limit)


async def read(db: Database, *given: object) -> list[dict[str, Any]]:
    """Return the acts that the filters choose: consumer, who, action, about, newer, limit."""
    from projectionist.core.postgres.statements import Statements

    rows = await db.connection.fetch(
        Statements("projectionist.runner", db.schema)["select_audit_log"], *given
    )
    return [dict(row) | {"detail": msgspec.json.decode(row["detail"])} for row in rows]


def _line(row: dict[str, Any]) -> dict[str, Any]:
    detail = ", ".join(f"{name} {value}" for name, value in row["detail"].items() if value is not None)
    return row | {"detail": detail or "-"}
