"""`projectionist incidents`: facts that must not be explained away, until somebody has dealt with them."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.content import reveal, without_answer
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import (
    Exit,
    UsageError,
    cell,
    lines,
    say,
    say_json,
    show_result,
    shown,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncpg import Record

    from projectionist.ops.cli.database import Database
    from projectionist.runner.admin.incidents import Incidents

TOPIC = Topic.DECIDE
HELP = "list incidents, show one, and close those that are dealt with"
EXAMPLE = """
projectionist incidents list                          open ones, by kind and whom they concern
projectionist incidents list --each --closed          one line each, closed ones too
projectionist incidents show 12
projectionist incidents close 12 13 --reason "the producer has mended its ids"
projectionist incidents close 12 --every-consumer --reason "the same for each consumer of that event"
projectionist incidents close --consumer OrderSummary --kind late --reason "known" --all
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("act", choices=("list", "show", "close"), help="what to do")
    parser.add_argument(
        "numbers", nargs="*", type=app_arguments.whole, metavar="NUMBER", help="incidents by number"
    )
    parser.add_argument("--consumer", metavar="NAME", help="only those of this projection or reactor")
    parser.add_argument("--kind", help="only those of this kind, as the list shows it")
    parser.add_argument("--closed", action="store_true", help="list: closed ones too")
    parser.add_argument("--each", action="store_true", help="list one line an incident instead of groups")
    parser.add_argument("--limit", type=app_arguments.whole, default=50, help="lines of --each (default: 50)")
    parser.add_argument("--all", action="store_true", help="close: all that the filters choose")
    app_arguments.declare_every(parser)
    app_arguments.declare_reveal(parser, "what providers answered")
    app_arguments.declare_act(parser, required=False)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it on the database of the settings."""
    app_arguments.check_reveal(args)
    if args.act == "show" and len(args.numbers) != 1:
        raise UsageError("show takes one NUMBER", remedy="`projectionist incidents list --each` shows them")
    if args.act == "close":
        app_arguments.need_reason(args, "close")
        if bool(args.numbers) == args.all:
            raise UsageError(
                "close takes numbers, or filters and --all",
                remedy="`projectionist incidents list --each` shows numbers",
            )
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from projectionist.ops.cli.database import database
    from projectionist.runner.admin.incidents import Incidents

    async with database("incidents") as db:
        incidents = Incidents(db.connection, db.schema)
        if args.act == "close":
            return await _close(incidents, args)
        if args.act == "show":
            return await _show(db, await incidents.one(args.numbers[0]), args)
        return await _list(db, incidents, args)


async def _list(db: Database, incidents: Incidents, args: argparse.Namespace) -> int:
    groups: list[dict[str, Any]] = [
        dict(row) for row in await incidents.groups(args.consumer, args.kind, closed=args.closed)
    ]
    if args.each:
        found = await incidents.each(args.consumer, args.kind, closed=args.closed, limit=args.limit)
        rows = await _told(db, found, args)
        columns = ("number", "consumer", "kind", "seq", "aggregate", "version", "opened", "closed", "detail")
        show_result(args, {"incidents": rows}, lines(rows, columns))
    else:
        show_result(
            args,
            {"groups": groups},
            lines(
                [shown(one) for one in groups],
                ("count", "consumers", "kind", "about", "closed", "oldest", "sample"),
            ),
        )
    return Exit.ATTENTION if any(not group["closed"] for group in groups) else Exit.DONE


async def _told(db: Database, found: Sequence[Record], args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return incidents; what a provider answered is content."""
    if args.reveal:
        await reveal(db.connection, db.schema, (f"incident {row['number']}" for row in found), args)
        return list(map(dict, found))
    return [without_answer(dict(row)) for row in found]


async def _show(db: Database, incident: Record, args: argparse.Namespace) -> int:
    [row] = await _told(db, [incident], args)
    if args.json:
        say_json(row)
    else:
        say(table((name, cell(value)) for name, value in row.items() if value is not None))
    return Exit.DONE if row["closed"] else Exit.ATTENTION


async def _close(incidents: Incidents, args: argparse.Namespace) -> int:
    from projectionist.core.operator import Act

    act = Act(args.actor, args.reason)
    numbers = args.numbers or [
        row["number"] for row in await incidents.each(args.consumer, args.kind, closed=False)
    ]
    if args.every_consumer:
        numbers = sorted({*numbers, *await incidents.alike(numbers)})
    closed = await incidents.close(numbers, act)
    left = [number for number in numbers if number not in closed]
    text = f"close: {len(closed)} done" + "".join(f"\n{number} was not open" for number in left)
    show_result(args, {"closed": closed, "unchanged": left}, text)
    return Exit.ATTENTION if left or not closed else Exit.DONE
