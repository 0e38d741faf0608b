"""`projectionist purge`: remove what retention no longer keeps, now."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from projectionist.core.printable_text import join_first
from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, say, say_json, table

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.ops.cli.command_context import AtWork
    from projectionist.runner.retention.purge import PurgeReport

TOPIC = Topic.HISTORY
HELP = "remove settled rows that retention no longer keeps; running processes do the same in the background"
EXAMPLE = """
projectionist purge --dry-run                 what would go, and of which consumers nothing goes, and why
projectionist purge shop.app:app              every consumer of the app, and what belongs to all of them
projectionist purge shop.app:app OrderSummary
"""
NAMED = 20
"""So many consumers its operation names."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser, names="the consumers (default: all)")
    parser.add_argument("--dry-run", action="store_true", help="count, and remove nothing")
    app_arguments.declare_act(parser, required=False)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    from projectionist.ops.cli import command_context

    return command_context.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from projectionist.ops.cli.command_context import at_work, late_progress, long_act
    from projectionist.runner.retention.background_purge import streams
    from projectionist.runner.retention.purge import Purger

    async with at_work(args, command="purge", unnamed=True) as work:

        @asynccontextmanager
        async def lend() -> AsyncIterator[Connection]:
            yield work.connection

        names = list(dict.fromkeys(definition.consumer for definition in work.definitions))
        mode = {"mode": "dry run"} if args.dry_run else {}
        about = {"consumer": join_first(names, NAMED), **mode}
        async with long_act(args, work, "purge", about, late_progress("purge")) as watched:
            purger = Purger(lend, work.settings, names, streams(work.client), watched)
            report = await purger.run(dry_run=args.dry_run)
            watched.begin("kept generations", 0)
            over = await _generations(work, report, dry_run=args.dry_run)
    if args.json:
        told = {"went": report.went, "held": report.held, "files": report.files, "generations": over}
        say_json({"dry_run": args.dry_run, **told})
    else:
        _show(report, dry_run=args.dry_run)
        for name, numbers in over.items():
            gone = "would be dropped" if args.dry_run else "dropped"
            say(f"{name}: generations that were kept long enough are {gone}: {', '.join(map(str, numbers))}")
    return Exit.DONE


async def _generations(work: AtWork, report: PurgeReport, *, dry_run: bool) -> dict[str, list[int]]:
    """Drop generations that were kept long enough, as the owner; which ones, by consumer."""
    from projectionist.core.postgres.rights import ownership
    from projectionist.runner.read_models.generations import expired, sweep
    from projectionist.runner.retention.rules import Held

    found: dict[str, list[int]] = {}
    whose = await ownership(work.connection, work.queries.schema)
    for definition in work.definitions:
        row = await work.queries.row("select_view", definition.name)
        over = [] if row is None else await expired(work.queries, row["view"])
        if over and not whose.owns and not dry_run:
            kept = f"generations {', '.join(map(str, over))} are over: run this as {whose.owner!r}, who owns them"
            report.held.append(Held(definition.full_name, kept))
        elif row is not None and over:
            found[definition.full_name] = over if dry_run else await sweep(work.queries, row["view"])
    return found


def _show(report: PurgeReport, *, dry_run: bool) -> None:
    verb = "would go" if dry_run else "gone"
    if report.went:
        say(
            table([("table", "consumer", verb), *((w.table, w.consumer, f"{w.rows:,}") for w in report.went)])
        )
    else:
        say("nothing is old enough to go")
    if report.files:
        say(f"files of the archive: {report.files} {verb}")
    for one in report.held:
        say(f"{one.consumer}: nothing goes, {one.why}")
