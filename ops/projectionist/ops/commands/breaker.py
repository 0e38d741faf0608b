"""`projectionist breaker`: close the breaker of a consumer by hand."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, say

if TYPE_CHECKING:
    from projectionist.core.operator import Act
    from projectionist.core.settings.settings import Postgres

TOPIC = Topic.DECIDE
HELP = "close the breaker of a consumer on which too much failed at once"
EXAMPLE = """
projectionist breaker reset OrderSummary --reason "the address service is back"
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("action", choices=("reset",), help="reset: close it now, instead of after its pause")
    parser.add_argument("consumer", metavar="CONSUMER", help="its name, as `projectionist status` shows it")
    app_arguments.declare_act(parser)


def run(args: argparse.Namespace) -> int:
    """Close it and say whether it was open."""
    from projectionist.core.operator import Act
    from projectionist.ops.cli.find_servers import settings

    act = Act(args.actor, args.reason)
    was_open = asyncio.run(_reset(settings().postgres, args.consumer, act))
    say(f"{args.consumer}: the breaker {'is closed again' if was_open else 'was not open'}")
    return Exit.DONE


async def _reset(postgres: Postgres, consumer: str, act: Act) -> bool:
    from projectionist.core.postgres.connections import connect
    from projectionist.runner.failures.consumer_breaker import reset

    connection = await connect(postgres, application_name="projectionist breaker")
    try:
        return await reset(connection, postgres.schema, consumer, act)
    finally:
        await connection.close()
