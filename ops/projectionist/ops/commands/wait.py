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
projectionist wait OrderSummary Stock --token SHOP:1f0c9a2e:4711   the same event in several, by its producer's token
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(
        parser,
        names="the consumer, and an aggregate (type/id) with its version; with --token any number of consumers",
    )
    parser.add_argument(
        "--seq", type=app_arguments.whole, metavar="N", help="the event at this sequence of the stream"
    )
    parser.add_argument("--token", metavar="TOKEN", help="the event that its producer names so")
    parser.add_argument("--source", help="with --id: the event's source")
    parser.add_argument("--id", help="the event's id")
    parser.add_argument("--timeout", type=float, default=10, metavar="SECONDS", help="how long (default: 10)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Wait."""
    from projectionist.ops.cli import event_loop
    from projectionist.ops.cli.find_servers import settings
    from projectionist.runner.app import App

    found = settings()
    where, names = app_arguments.split(args, found.app)
    if not names:
        raise UsageError("no consumer is named", remedy="Write `projectionist wait APP NAME type/id VERSION`")
    app = app_arguments.load(where, App)
    if args.token is not None:
        return _told_each(names, event_loop.run(_cut(app, found, names, args)), as_json=args.json)
    answer = event_loop.run(_wait(app, found, names, args))
    if args.json:
        say_json(_written(answer))
    else:
        say(str(answer))
    return _exit([answer])


def _told_each(names: list[str], answers: list[WaitResult], *, as_json: bool) -> int:
    told = dict(zip(names, answers, strict=True))
    if as_json:
        say_json({"consumers": {name: _written(answer) for name, answer in told.items()}})
    else:
        for name, answer in told.items():
            say(f"{name}: {answer}")
    return _exit(answers)


def _written(answer: WaitResult) -> dict[str, str]:
    return {"outcome": str(answer.outcome), "reason": answer.reason}


def _exit(answers: list[WaitResult]) -> int:
    from projectionist.runner.wait.outcome import WaitOutcome

    ends = {answer.outcome for answer in answers}
    if ends & {WaitOutcome.PARKED, WaitOutcome.QUARANTINED, WaitOutcome.NOT_SERVED}:
        return Exit.ATTENTION
    return Exit.FAILED if WaitOutcome.PENDING in ends else Exit.DONE


async def _cut(app: App, settings: Settings, names: list[str], args: argparse.Namespace) -> list[WaitResult]:
    from projectionist.runner.wait.waiter import Waiter

    if args.seq is not None or args.id is not None:
        raise UsageError("what to wait for is not clear", remedy="Give --token alone")
    known = [app.definition(name).name for name in names]
    return await Waiter(app.definitions, settings).cut(known, args.token, args.timeout)


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
        "what to wait for is not clear",
        remedy="Give type/id and version, --seq, --token, or --source and --id",
    )
