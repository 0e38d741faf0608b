"""`projectionist doctor`: what would lose, double or stop something, and the command that mends it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, note, say, say_json, styled, table

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings
    from projectionist.ops.doctor.examine import Examined
    from projectionist.runner.app import App

TOPIC = Topic.LOOK
HELP = "check servers, streams, settings and consumers, and say what mends each fault"
EXAMPLE = """
projectionist doctor                                      everything of the app in the settings
projectionist doctor shop.app:app --consumer OrderSummary with the questions every consumer has to answer
projectionist doctor --json                               for programs (exit code 3: something needs attention)
projectionist doctor --permissions --process run          the subjects that a user of NATS needs for `run`
"""


PROCESSES = ("run", "relay", "rebuild", "observe", "producer", "operator")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser)
    parser.add_argument(
        "--consumer", metavar="NAME", help="look at this one, and answer what its design says"
    )
    parser.add_argument("--all", action="store_true", help="show what is well too")
    parser.add_argument(
        "--permissions", action="store_true", help="look at nothing; print what each process needs at NATS"
    )
    parser.add_argument(
        "--process", choices=PROCESSES, metavar="PROCESS", help=f"of this one alone: {', '.join(PROCESSES)}"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Look."""
    from projectionist.ops.cli import event_loop
    from projectionist.ops.cli.find_servers import settings
    from projectionist.ops.doctor.examine import examine
    from projectionist.runner.app import App

    found = settings()
    name, _ = app_arguments.split(args, found.app)
    app = app_arguments.load(name, App)
    found.refuse_strangers(consumers=[one.name for one in app.definitions], providers=app.providers)
    if args.permissions:
        return _permissions(args, app, found)
    if args.process:
        raise UsageError("--process is about permissions", remedy="Write --permissions as well")
    chosen = app.chosen([args.consumer] if args.consumer else [])
    examined = event_loop.run(examine(app, chosen, found))
    if args.json:
        say_json({"well": examined.well, "checks": examined.checks, "questions": examined.questions})
    else:
        _show(examined, everything=args.all, questions=args.consumer is not None)
    return Exit.DONE if examined.well else Exit.ATTENTION


def _permissions(args: argparse.Namespace, app: App, found: Settings) -> int:
    """Print what each process needs, or one."""
    from projectionist.ops.cli import event_loop
    from projectionist.ops.doctor import permissions
    from projectionist.ops.doctor.durables import registered_durables

    durables = event_loop.run(registered_durables(found.postgres))
    processes = [args.process] if args.process else PROCESSES
    needed = {name: permissions.rights(permissions.Process(name), app, found, durables) for name in processes}
    if args.json:
        say_json({name: rights.document() for name, rights in needed.items()})
        return Exit.DONE
    for name, rights in needed.items():
        for verb, those in (("publish", rights.publish), ("subscribe", rights.subscribe)):
            say(f"{name} may {verb}:")
            say(table((f"  {right.subject}", right.why) for right in those) or "  nothing")
        say(f"\n{rights.block()}\n")
        for text in rights.notes:
            note(f"{name}: {text}")
    return Exit.DONE


def _show(examined: Examined, *, everything: bool, questions: bool) -> None:
    marks = {"well": styled("ok  ", "good"), "note": "note", "attention": styled("LOOK", "bad")}
    for check in examined.checks:
        if everything or check.level != "well":
            say(f"{marks[check.level]}  {check.about}: {check.name}: {check.found}")
            if check.mend:
                say(f"      mend: {check.mend}")
    for name, answers in examined.questions.items() if questions else ():
        say(f"\n{name}")
        for question, answer in answers:
            say(f"  {question}\n    {answer}")
    looked, waits = len(examined.checks), sum(check.level == "attention" for check in examined.checks)
    say(f"\n{looked} things looked at, {waits} need attention")
