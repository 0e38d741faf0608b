"""`projectionist adopt`: read a stream that is not the one read so far."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

import msgspec

from projectionist.ops import apps
from projectionist.ops.terminal import Exit, say, say_json

if TYPE_CHECKING:
    from projectionist.core.settings import Settings
    from projectionist.runner.adoption import Adopted
    from projectionist.runner.verbs import Act

HELP = "decide that a stream which was replaced, restored or has lost its end is to be read from now on"
EXAMPLE = """
projectionist adopt OrderSummary --reason "SHOP was restored from Monday's backup"
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("consumer", metavar="CONSUMER", help="the consumer that was halted")
    apps.declare_act(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Adopt it, and say what that means."""
    from projectionist.ops.servers import settings
    from projectionist.runner.verbs import Act

    adopted = asyncio.run(_adopt(settings(), args.consumer, Act(args.actor, args.reason)))
    if args.json:
        say_json(msgspec.to_builtins(adopted))
        return Exit.DONE
    say(f"{adopted.consumer} reads stream {adopted.stream}: {adopted.found}.")
    if adopted.again:
        say(
            f"It is incarnation {adopted.incarnation}, read from its first message; known events are not applied again."
        )
    return Exit.DONE


async def _adopt(settings: Settings, consumer: str, act: Act) -> Adopted:
    from projectionist.core import broker, db
    from projectionist.runner.adoption import Adoption

    connection = await db.connect(settings.postgres, application_name="projectionist adopt")
    try:
        client = await broker.connect(settings.nats, name="projectionist adopt")
        try:
            return await Adoption(connection, client, settings.postgres.schema).adopt(consumer, act)
        finally:
            await client.close()
    finally:
        await connection.close()
