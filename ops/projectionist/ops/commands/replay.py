"""`projectionist replay`: hand a range of the stream to a consumer again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, say, say_json

if TYPE_CHECKING:
    from projectionist.runner.verify.replay import Replayed

TOPIC = Topic.HISTORY
HELP = "hand a range of the stream to a consumer again; what is settled stays as it is"
EXAMPLE = """
projectionist replay shop.app:app OrderSummary --from 1000 --to 2000 --dry-run --reason "a look"
projectionist replay shop.app:app OrderSummary --from 2026-01-31T12:00:00Z --reason "after the restore"
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser, names="the consumer")
    parser.add_argument(
        "--from",
        dest="first",
        required=True,
        metavar="WHERE",
        help="a stream sequence, or a time with its zone",
    )
    parser.add_argument(
        "--to", dest="last", metavar="WHERE", help="the same (default: the end of the stream)"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what is settled and what is not, do nothing"
    )
    app_arguments.declare_act(parser)
    parser.add_argument("--throttle", type=float, metavar="N", help="read at most N events a second")
    parser.add_argument("--json", action="store_true", help="end with one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    from projectionist.ops.cli import command_context

    return command_context.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from projectionist.core.operator import Act
    from projectionist.ops.cli.command_context import at_work, long_act, progress
    from projectionist.runner.jetstream.stream_range import span_of
    from projectionist.runner.verify.replay import ALLOW, Replayer

    async with at_work(args, consumers=0, command="replay") as work:
        definition = work.app.definition(work.names[0])
        span = await span_of(work.client, definition.stream, args.first, args.last)
        watched = progress(definition.name, args.throttle, what="replay")
        async with long_act(args, work, "replay", {"consumer": definition.name}, watched) as told:
            replayer = Replayer(work.queries, definition, work.settings, work.client, told)
            done = await replayer.run(span, Act(args.actor, args.reason), dry_run=args.dry_run)
    if args.json:
        say_json({"replayed": done})
    else:
        say(_summary(done))
    return Exit.ATTENTION if done.unsettled and done.policy != ALLOW else Exit.DONE


def _summary(one: Replayed) -> str:
    lines = [
        f"{one.consumer}: sequences {one.first} to {one.last}, {one.events:,} events, {one.settled:,} settled before"
    ]
    if one.unsettled:
        done = "applied now" if one.policy == "allow" else "left to the runner"
        lines.append(f"  {one.unsettled:,} not settled by anybody, {done}: {', '.join(one.unsettled_named)}")
    if one.unreadable:
        lines.append(f"  {one.unreadable:,} cannot be read")
    lines += [f"  {n:,} x {outcome}" for outcome, n in sorted(one.outcomes.items())]
    lines += [
        f"  not sent, below the effects mark: {n:,} x {slot}" for slot, n in sorted(one.suppressed.items())
    ]
    return "\n".join(lines)
