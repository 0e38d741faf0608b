"""`projectionist retire`: remove a consumer that no app has any more."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

import msgspec

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, confirmed, say, show_result, warn

if TYPE_CHECKING:
    from projectionist.runner.admin.retire import Retired

TOPIC = Topic.DECIDE
HELP = "remove a consumer for good: rows, inbox, positions, generations and durable; its names stay reserved"
EXAMPLE = """
projectionist retire OrderSummary --reason "replaced by Orders"         says what would go, and asks
projectionist retire OrderSummary --reason "replaced by Orders" --yes   while nobody runs it
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("consumer", metavar="CONSUMER", help="its name, as `projectionist status` shows it")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    app_arguments.declare_act(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Say what goes, ask, and do it."""
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from projectionist.core.nats import connections
    from projectionist.core.operator import Act
    from projectionist.ops.cli.database import database
    from projectionist.runner.admin.retire import Retiring

    act = Act(args.actor, args.reason)
    async with database("retire") as db:
        client = await connections.connect(db.settings.nats, name="projectionist retire")
        try:
            retiring = Retiring(db.connection, client, db.schema)
            if not args.yes:
                say(_text(await retiring.plan(args.consumer), "would go"))
                if not confirmed(f"Remove {args.consumer} for good?"):
                    warn("nothing was changed: say --yes to do it")
                    return Exit.USAGE
            done = await retiring.retire(args.consumer, act)
        finally:
            await client.close()
    show_result(args, msgspec.structs.asdict(done), _text(done, "are gone"))
    return Exit.DONE


def _text(done: Retired, gone: str) -> str:
    views = f"{', '.join(done.views)} with all generations, " if done.views else ""
    counts = (
        f"{done.positions:,} positions, {done.inbox:,} inbox entries, {done.parked:,} parked events, "
        f"{done.quarantined:,} in quarantine, {done.decisions:,} decisions, {done.intents:,} settled intents"
    )
    durable = f"durable {done.durable} of stream {done.stream}"
    return f"{done.consumer}: {views}{counts} and {durable} {gone}. Its names stay reserved."
