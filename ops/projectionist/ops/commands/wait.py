"""`projectionist wait`: until a consumer has applied an event."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, say, say_json

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings
    from projectionist.runner.app import App
    from projectionist.runner.wait.outcome import WaitResult

TOPIC = Topic.LOOK
HELP = "wait until a consumer has applied an event; says at once if it is parked, and why"
EXAMPLE = """
projectionist wait shop.app:app OrderSummary order/7 3       version 3 of an aggregate
projectionist wait OrderSummary --seq 4711                   what a publish was answered
projectionist wait OrderSummary --source shop --id e-17      an event by its identity
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser, names="the consumer, and an aggregate (type/id) with its version")
    parser.add_argument("--seq", type=int, metavar="N", help="the event at this sequence of the stream")
    parser.add_argument("--source", help="with --id: the event's source")
    parser.add_argument("--id", help="the event's id")
    parser.add_argument("--timeout", type=float, default=10, metavar="SECONDS", help="how long (default: 10)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Wait."""
    from projectionist.ops.cli import event_loop
    from projectionist.ops.cli.find_servers import settings
    from projectionist.runner.app import App
    from projectionist.runner.wait.outcome import WaitOutcome

    found = settings()
    app, names = app_arguments.split(args, found.app)
    if not names:
        raise UsageError("no consumer is named", remedy="Write `projectionist wait APP NAME type/id VERSION`")
    answer = event_loop.run(_wait(app_arguments.load(app, App), found, names, args))
    if args.json:
        say_json({"outcome": answer.outcome, "reason": answer.reason})
    else:
        say(str(answer))
    if answer.outcome == WaitOutcome.PENDING:
        return Exit.FAILED
    waits = answer.outcome in (WaitOutcome.PARKED, WaitOutcome.QUARANTINED, WaitOutcome.NOT_SERVED)
    return Exit.ATTENTION if waits else Exit.DONE


async def _wait(app: App, settings: Settings, names: list[str], args: argparse.Namespace) -> WaitResult:
    from projectionist.outbox.publishing.publisher import Published
    from projectionist.runner.wait.waiter import Waiter

    definition, waiter = app.definition(names[0]), Waiter(app.definitions, settings)
    where = names[1:]
    if args.seq is not None and not where and args.id is None:
        ack = Published(definition.stream, args.seq, duplicate=False)
        return await waiter.sequence(definition.name, ack, args.timeout)
    if args.id is not None and not where and args.seq is None:
        return await waiter.identity(definition.name, args.source or definition.stream, args.id, args.timeout)
    if len(where) == 2 and where[1].isdigit() and args.seq is None and args.id is None:
        return await waiter.version(definition.name, where[0], int(where[1]), args.timeout)
    raise UsageError(
        "what to wait for is not clear", remedy="Give type/id and version, --seq, or --source and --id"
    )
