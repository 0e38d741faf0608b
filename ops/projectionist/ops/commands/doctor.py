"""`projectionist doctor`: what would lose, double or stop something, and the command that mends it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, say, say_json, styled

if TYPE_CHECKING:
    from projectionist.ops.doctor.examine import Examined

TOPIC = Topic.LOOK
HELP = "check servers, streams, settings and consumers, and say what mends each fault"
EXAMPLE = """
projectionist doctor                                      everything of the app in the settings
projectionist doctor shop.app:app --consumer OrderSummary with the questions every consumer has to answer
projectionist doctor --json                               for programs (exit code 3: something needs attention)
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser)
    parser.add_argument(
        "--consumer", metavar="NAME", help="look at this one, and answer what its design says"
    )
    parser.add_argument("--all", action="store_true", help="show what is well too")
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
    chosen = app.chosen([args.consumer] if args.consumer else [])
    examined = event_loop.run(examine(app, chosen, found))
    if args.json:
        say_json({"well": examined.well, "checks": examined.checks, "questions": examined.questions})
    else:
        _show(examined, everything=args.all, questions=args.consumer is not None)
    return Exit.DONE if examined.well else Exit.ATTENTION


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
