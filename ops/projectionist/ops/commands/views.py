"""`projectionist views`: take a view out of its set without a deploy, and let it join again."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

import msgspec

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, show_result

if TYPE_CHECKING:
    from projectionist.runner.admin.set_views import SetView

TOPIC = Topic.DECIDE
HELP = "take a view out of its set while the others go on, or let it join them again"
EXAMPLE = """
projectionist views detach Shop.OrderLines --reason "fails on half of the orders"   its rows stay as they are
projectionist views attach Shop.OrderLines --reason "mended in 1.4"   processes that run build it, and it joins
projectionist rebuild shop.app:app Shop.OrderLines   the same, where none runs that lists it
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("act", choices=("detach", "attach"), help="what to do")
    parser.add_argument("view", metavar="VIEW", help="its name, alone or behind that of its set")
    app_arguments.declare_act(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it, and say what becomes of the view."""
    done = asyncio.run(_run(args))
    show_result(args, msgspec.structs.asdict(done), _told(args.act, done))
    return Exit.DONE


async def _run(args: argparse.Namespace) -> SetView:
    from projectionist.core.operator import Act
    from projectionist.ops.cli.database import database
    from projectionist.runner.admin.set_views import attach, detach

    async with database("views") as db:
        act = Act(args.actor, args.reason)
        return await (detach if args.act == "detach" else attach)(db.connection, db.schema, args.view, act)


def _told(act: str, done: SetView) -> str:
    name = f"{done.consumer}.{done.view}"
    if not done.changed:
        return f"{name}: is {done.state} already"
    if act == "attach":
        return (
            f"{name}: joins as soon as it is built. Processes that run and list it begin by themselves; where none "
            f"does, `projectionist rebuild APP {name}`"
        )
    later = (
        f"; {done.scheduled:,} of its intents wait for their time and are sent then" if done.scheduled else ""
    )
    return f"{name}: is detached, and its rows stay as they are{later}"
