"""`projectionist audit-stream`: holes and reuse among the versions that a stream holds."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, say, say_json, warn

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings
    from projectionist.ops.inspect.stream_audit import AuditResult
    from projectionist.projections.compiled.definition import ConsumerDefinition

TOPIC = Topic.LOOK
HELP = "walk a stream and list versions that are missing, or that two events claim; changes nothing"
EXAMPLE = """
projectionist audit-stream shop.app:app OrderSummary               all that this consumer reads
projectionist audit-stream OrderSummary --first 100000 --last 200000
projectionist audit-stream OrderSummary --json                     all of it (exit code 3: something is wrong)
"""

SHOWN = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser, names="the consumer whose stream, subjects and headers are meant")
    parser.add_argument(
        "--first", type=app_arguments.whole, default=1, metavar="N", help="begin at this sequence"
    )
    parser.add_argument("--last", type=app_arguments.whole, metavar="N", help="end at this sequence")
    parser.add_argument("--throttle", type=float, metavar="N", help="read at most N events a second")
    parser.add_argument("--json", action="store_true", help="end with one JSON document")


def run(args: argparse.Namespace) -> int:
    """Walk; the database is not asked, so what was decided there is listed too."""
    from projectionist.ops.cli import event_loop
    from projectionist.ops.cli.find_servers import settings
    from projectionist.runner.app import App

    found = settings()
    app, names = app_arguments.split(args, found.app)
    if len(names) != 1:
        raise UsageError(
            "audit-stream takes one consumer", remedy="Write `projectionist audit-stream APP NAME`"
        )
    walked = event_loop.run(_walk(app_arguments.load(app, App).definition(names[0]), found, args))
    if args.json:
        say_json(walked)
    else:
        _show(walked)
    return Exit.ATTENTION if walked.holes or walked.reused else Exit.DONE


async def _walk(definition: ConsumerDefinition, settings: Settings, args: argparse.Namespace) -> AuditResult:
    from projectionist.core.nats import connections
    from projectionist.ops.cli.command_context import progress
    from projectionist.ops.inspect.stream_audit import walk

    client = await connections.connect(settings.nats, name="projectionist audit-stream")
    try:
        bar = progress(definition.name, args.throttle, what="audit-stream")
        return await walk(client, definition, settings, bar, first=args.first, last=args.last)
    finally:
        await client.close()


def _show(walked: AuditResult) -> None:
    say(
        f"{walked.stream} {walked.first}..{walked.last}: {walked.events:,} events of {walked.aggregates:,} aggregates, "
        f"{walked.repeats:,} came again as they were"
    )
    if walked.unreadable or walked.unversioned:
        say(f"{walked.unreadable:,} cannot be read, {walked.unversioned:,} have no aggregate or version")
    if walked.late_beginnings:
        say(f"{walked.late_beginnings:,} aggregates begin later than at version 1")
    for hole in walked.holes[:SHOWN]:
        missing = (
            f"version {hole.first}" if hole.first == hole.last else f"versions {hole.first} to {hole.last}"
        )
        say(f"missing: {hole.aggregate}, {missing}")
    for reuse in walked.reused[:SHOWN]:
        claims = ", ".join(f"{one.id} of {one.source} at sequence {one.seq}" for one in reuse.events)
        say(f"used twice: {reuse.aggregate}, version {reuse.version}: {claims}")
    for what, found in (("missing", walked.holes), ("used twice", walked.reused)):
        if len(found) > SHOWN:
            warn(f"{len(found) - SHOWN:,} more {what}: --json lists all")
