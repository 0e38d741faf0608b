"""`projectionist erase`: remove the content of an aggregate or an event wherever it is kept."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, say, say_json, table

if TYPE_CHECKING:
    from projectionist.runner.admin.erasure_report import EraseTarget, Erasure

TOPIC = Topic.DECIDE
HELP = "remove the content of an aggregate or an event wherever it is kept; rebuild and verify repeat that"
EXAMPLE = """
projectionist erase shop.app:app --aggregate customer/17 --plan                        what it would touch
projectionist erase shop.app:app --aggregate customer/17 --reason "ticket 4711"        tables, archive, rows
projectionist erase shop.app:app --aggregate customer/17 --reason "…" --stream         and its messages
projectionist erase shop.app:app --event e-17 --source shop --reason "card in a note"
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--aggregate", metavar="TYPE/ID", help="all of its events")
    what.add_argument("--event", metavar="ID", help="this event")
    parser.add_argument("--source", help="the event's source, where its id is known under several")
    parser.add_argument(
        "--stream", action="store_true", help="delete its messages from the streams too, for good"
    )
    parser.add_argument("--archive", metavar="FOLDER", help="the archive's files (default: archive_folder)")
    parser.add_argument("--plan", action="store_true", help="say what it would touch, and change nothing")
    app_arguments.declare_act(parser, required=False)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    from projectionist.ops.cli import command_context

    if not args.plan:
        app_arguments.need_reason(args, "erase")
    if args.aggregate is not None and "/" not in args.aggregate:
        raise UsageError(
            f"{args.aggregate!r} is no aggregate", remedy="Write --aggregate TYPE/ID, like customer/17"
        )
    if args.source is not None and args.event is None:
        raise UsageError("--source is of an event", remedy="Name it with --event")
    return command_context.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from projectionist.core.operator import Act
    from projectionist.ops.cli.command_context import at_work, late_progress, long_act
    from projectionist.runner.admin.erasure import Eraser, target_of

    async with at_work(args, command="erase", unnamed=True) as work:
        folder = args.archive or work.settings.retention.archive_folder
        connection, schema = work.connection, work.settings.postgres.schema
        target = await target_of(
            connection, schema, aggregate=args.aggregate, event=args.event, source=args.source
        )
        archive = None if folder is None else Path(folder)
        async with long_act(args, work, "erase", _about(target, args), late_progress("erase")) as told:
            eraser = Eraser(connection, work.client, work.settings, work.definitions, told, archive)
            if args.plan:
                found = await eraser.plan(target)
            else:
                found = await eraser.erase(target, Act(args.actor, args.reason), messages=args.stream)
    if args.json:
        say_json({"plan": args.plan, **msgspec.structs.asdict(found), "remains": found.remains})
    else:
        _show(found, plan=args.plan)
    return Exit.ATTENTION if found.undone or (args.stream and found.unsettled) else Exit.DONE


def _about(target: EraseTarget, args: argparse.Namespace) -> dict[str, object]:
    """Return what its operation says: identity, which stays, and no content."""
    named = {"aggregate": target.aggregate, "event": target.id, "source": target.source}
    named["mode"] = "plan" if args.plan else "streams too" if args.stream else None
    return {name: value for name, value in named.items() if value is not None}


def _show(found: Erasure, *, plan: bool) -> None:
    rows = [("consumer", "table", "would be erased" if plan else "erased")]
    rows += [(c.consumer, name, f"{count:,}") for c in found.consumers for name, count in c.touched.items()]
    rows += [(c.consumer, "read model", c.rows) for c in found.consumers if c.rows]
    rows += [(c.consumer, "kept generations", str(len(c.kept))) for c in found.consumers if c.kept]
    for name, count in (("intents", found.recorded), ("archive", found.archived), ("files", found.files)):
        rows += [("", name, f"{count:,}")] if count else []
    rows += [
        ("", f"stream {one.stream}", f"{one.deleted:,} messages deleted")
        for one in found.streams
        if one.deleted
    ]
    say(f"{found.target}:")
    say(table(rows) if len(rows) > 1 else "nothing is left to erase in the database")
    say("What remains:")
    for line in found.remains:
        say(f"- {line}")
