"""`projectionist recompute`: fold one live row anew, and write it where it differs."""

from __future__ import annotations

import argparse

from msgspec.structs import replace

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.content import reveal, values_of, without_values
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, say, say_json

TOPIC = Topic.HISTORY
HELP = "fold one live row again from its events and write it where it differs; no effect is made"
EXAMPLE = """
projectionist recompute shop.app:app OrderSummary o-17 --reason "row was edited by hand"
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser, names="the projection and the row's key")
    app_arguments.declare_reveal(parser, "the row as it was and is")
    app_arguments.declare_act(parser)
    parser.add_argument("--json", action="store_true", help="end with one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    from projectionist.ops.cli import command_context

    return command_context.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from projectionist.core.operator import Act
    from projectionist.ops.cli.command_context import at_work
    from projectionist.runner.verify.recompute import recompute

    async with at_work(args, consumers=1, command="recompute") as work:
        if len(work.names) != 1:
            raise UsageError(
                "the row's key is missing", remedy="Write `projectionist recompute APP NAME KEY`"
            )
        act = Act(args.actor, args.reason)
        done = await recompute(
            work.queries, work.definitions[0], work.settings, work.client, work.names[0], act
        )
        if args.reveal:
            things = [f"{done.consumer}: row {done.key}"]
            await reveal(work.connection, work.settings.postgres.schema, things, args)
    if done.changed is not None and not args.reveal:
        done = replace(done, changed=without_values(done.changed))
    nothing = done.changed is None and not done.events
    if args.json:
        say_json({"recomputed": done})
    elif nothing:
        say(f"{done.consumer} {done.key}: there is no such row, and no event makes one")
    elif done.changed is None:
        say(f"{done.consumer} {done.key}: right as it was, {done.events} events")
    else:
        since = f", wrong from {done.changed.since} on" if done.changed.since else ""
        was, now = values_of(done.changed.live), values_of(done.changed.folded)
        say(f"{done.consumer} {done.key}: written{since}; was {was}, is {now}")
    return Exit.FAILED if nothing else Exit.DONE
