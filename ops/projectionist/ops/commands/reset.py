"""`projectionist reset`: start a consumer as new."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

import msgspec

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, confirmed, say, show_result, warn

if TYPE_CHECKING:
    from projectionist.runner.admin.reset import ResetEffects

TOPIC = Topic.HISTORY
HELP = "start a consumer as new: empty its rows and inbox and read the stream again, without earlier effects"
EXAMPLE = """
projectionist reset OrderSummary --reason "rows were edited by hand"         says what it would do, and asks
projectionist reset OrderSummary --reason "rows were edited by hand" --yes   while it is paused, or run by nobody
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("consumer", metavar="CONSUMER", help="its name, as `projectionist status` shows it")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--partial", action="store_true", help="although the stream has lost events that were applied"
    )
    parser.add_argument(
        "--scheduled",
        choices=("keep", "discard"),
        help="what becomes of intents that wait for their time, where there are any",
    )
    app_arguments.declare_act(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Say what goes, ask, and do it."""
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from projectionist.core.nats import connections
    from projectionist.core.operator import Act
    from projectionist.ops.cli.database import database
    from projectionist.runner.admin.reset import Resetting

    act = Act(args.actor, args.reason)
    async with database("reset") as db:
        client = await connections.connect(db.settings.nats, name="projectionist reset")
        try:
            resetting = Resetting(db.connection, client, db.schema)
            if not args.yes:
                planned = await resetting.plan(args.consumer, partial=args.partial, scheduled=args.scheduled)
                say(_text(planned, "would go"))
                if not confirmed(f"Start {args.consumer} as new?"):
                    warn("nothing was changed: say --yes to do it")
                    return Exit.USAGE
            done = await resetting.reset(args.consumer, act, partial=args.partial, scheduled=args.scheduled)
        finally:
            await client.close()
    show_result(args, msgspec.structs.asdict(done), _text(done, "are gone"))
    return Exit.DONE


def _text(done: ResetEffects, gone: str) -> str:
    rows = f"all rows of {', '.join(done.tables)}, " if done.tables else ""
    later = (
        f" {done.scheduled:,} intents that wait for their time are {'kept' if done.kept else 'discarded'}."
        if done.scheduled
        else ""
    )
    return (
        f"{done.consumer}: {rows}{done.positions:,} positions, {done.inbox:,} inbox entries and {done.parked:,} parked "
        f"events {gone}. Stream {done.stream} is read from its first message; {done.decisions:,} decisions are "
        f"repeated; effects are real from sequence {done.effects_from:,} on.{later}"
    )
