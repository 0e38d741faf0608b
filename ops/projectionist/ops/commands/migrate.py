"""`projectionist migrate`: bring the database to what this release and the app's read models need."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, say, say_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from projectionist.core.settings.settings import Settings
    from projectionist.projections import Definition
    from projectionist.runner.process.migrate_app import PendingChanges

TOPIC = Topic.RUN
HELP = "create or change the tables this release and the app need, or show what that would do"
EXAMPLE = """
projectionist migrate shop.app:app          apply what is pending: our tables, then the read models
projectionist migrate shop.app:app --plan   print the SQL, change nothing
projectionist migrate --check               is anything pending? (exit code 3 if so)
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--plan", action="store_true", help="print the SQL that would run, change nothing")
    instead.add_argument("--check", action="store_true", help="say what is pending, change nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it on the database of the settings."""
    from projectionist.ops.cli.find_servers import settings
    from projectionist.runner.process.migrate_app import migrate_app

    found = settings()
    pending = asyncio.run(migrate_app(found, definitions(args, found), apply=not (args.plan or args.check)))
    if args.json:
        say_json(_document(pending, args))
    elif args.plan:
        say(_script(pending))
    else:
        say(_summary(pending, done=not args.check))
    rebuilds = any(change.rebuild for change in pending.read_models)
    waiting = args.check and (pending.release or pending.read_models or pending.indexes)
    return Exit.ATTENTION if rebuilds or waiting else Exit.DONE


def definitions(args: argparse.Namespace, found: Settings) -> Sequence[Definition]:
    """Return the consumers of APP, or none, where neither the arguments nor the settings name one."""
    from projectionist.runner.app import App

    if not args.words and found.app is None:
        return ()
    app, _ = app_arguments.split(args, found.app)
    return app_arguments.load(app, App).definitions


def _document(pending: PendingChanges, args: argparse.Namespace) -> dict[str, Any]:
    from projectionist.migrations import script

    release: list[Any] = [each.name for each in pending.release]
    if args.plan:
        release = [{"name": each.name, "sql": script(each, pending.schema)} for each in pending.release]
    word = "pending" if args.plan or args.check else "applied"
    return {
        "schema": pending.schema,
        word: release,
        "read_models": pending.read_models,
        "indexes": pending.indexes,
    }


def _script(pending: PendingChanges) -> str:
    from projectionist.migrations import script

    parts = [script(each, pending.schema) for each in pending.release]
    for change in pending.read_models:
        lines = [
            f"-- read model of {change.consumer}: {change.what}",
            *(f"-- {note}" for note in change.notes),
        ]
        lines += [f"-- needs a rebuild: {reason}" for reason in change.rebuild]
        parts.append(
            "\n".join([*lines, *(f"{statement};" for statement in (*change.statements, *change.indexes))])
        )
    parts += [f"{statement};" for statement in pending.indexes]
    return "\n\n".join(parts) or _nothing(pending)


def _summary(pending: PendingChanges, *, done: bool) -> str:
    word = "applied to" if done else "pending in"
    lines = [f"{word} schema {pending.schema}: {each.name}" for each in pending.release]
    for change in pending.read_models:
        if change.rebuild:
            lines.append(f"{change.consumer} needs a rebuild: {'; '.join(change.rebuild)}")
        else:
            lines.append(
                f"{'done' if done else 'pending'}: {change.what} the read model of {change.consumer}"
            )
        lines += [f"  note: {note}" for note in change.notes]
    lines += [f"{'done' if done else 'pending'}: {statement}" for statement in pending.indexes]
    if lines:
        return "\n".join(lines)
    return f"Schema {pending.schema} is up to date." if done else _nothing(pending)


def _nothing(pending: PendingChanges) -> str:
    return f"Nothing is pending in schema {pending.schema}."
