"""`projectionist migrate`: bring the database to what this release and the app's read models need."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, note, say, say_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from projectionist.core.settings.settings import Settings
    from projectionist.runner.app import App
    from projectionist.runner.jetstream.stream_plan import StreamPlan
    from projectionist.runner.process.migrate_app import PendingChanges

TOPIC = Topic.RUN
HELP = "create or change the tables (and streams) this release and the app need, or show what that would do"
EXAMPLE = """
projectionist migrate shop.app:app          apply what is pending: our tables, then the read models
projectionist migrate shop.app:app --plan   print the SQL, change nothing
projectionist migrate --streams             make and grow the streams that the app declares, too
projectionist migrate --check               is anything pending? (exit code 3 if so)
"""


LOOK_S = 2.0
"""How long NATS may take to be connected to where only a hint depends on it."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--plan", action="store_true", help="print the SQL that would run, change nothing")
    instead.add_argument("--check", action="store_true", help="say what is pending, change nothing")
    parser.add_argument(
        "--streams",
        action="store_true",
        help="the streams that the app declares, too; nothing is ever shrunk",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it on the database of the settings."""
    from projectionist.ops.cli.find_servers import settings
    from projectionist.runner.process.migrate_app import migrate_app

    found = settings()
    app = named(args, found)
    pending = asyncio.run(migrate_app(found, app.definitions, apply=not (args.plan or args.check)))
    streams = _streams(found, app, args)
    if args.json:
        say_json(_document(pending, args) | ({"streams": streams} if app.streams else {}))
    elif args.plan:
        say("\n\n".join([_script(pending), *_stream_script(streams if args.streams else [])]))
    else:
        say("\n".join([_summary(pending, done=not args.check), *_stream_lines(streams, args)]))
    rebuilds = any(change.rebuild for change in pending.read_models)
    waiting = args.check and (pending.release or pending.read_models or pending.indexes)
    unlike = args.streams and any(one.differences or (args.check and one.what) for one in streams)
    return Exit.ATTENTION if rebuilds or waiting or unlike else Exit.DONE


def named(args: argparse.Namespace, found: Settings) -> App:
    """Return APP, or one of nothing, where neither the arguments nor the settings name one."""
    from projectionist.runner.app import App

    if not args.words and found.app is None:
        return App()
    app, _ = app_arguments.split(args, found.app)
    return app_arguments.load(app, App)


def _streams(found: Settings, app: App, args: argparse.Namespace) -> list[StreamPlan]:
    """Return what was done with the app's streams, or, where that was not asked for, what would be, if NATS answers."""
    from projectionist.core.nats.connections import BrokerUnreachable
    from projectionist.runner.process.migrate_streams import migrate_streams

    if args.streams:
        if not app.streams:
            note("note: the app declares no streams: App(streams=[…])")
        apply = not (args.plan or args.check)
        return asyncio.run(migrate_streams(found, app.streams, app.definitions, apply=apply))
    look = migrate_streams(found, app.streams, app.definitions, apply=False, within_s=LOOK_S)
    try:
        streams = asyncio.run(look)
    except BrokerUnreachable as error:
        note(f"note: whether the streams are as declared cannot be told. {error}")
        return []
    for one in streams:
        if one.what:
            state = "missing" if one.what == "create" else "not as declared"
            note(f"note: stream {one.stream} is {state}: `projectionist migrate --streams` mends that")
    return streams


def _stream_script(streams: Sequence[StreamPlan]) -> Iterator[str]:
    for one in streams:
        what = f"{one.what}\n--   {msgspec.json.encode(one.config).decode()}" if one.what else "as declared"
        lines = [f"-- stream {one.stream}: {what}", *(f"-- {line}" for line in _remarks(one))]
        yield "\n".join(lines)


def _stream_lines(streams: Sequence[StreamPlan], args: argparse.Namespace) -> Iterator[str]:
    for one in streams if args.streams else ():
        if one.what:
            yield f"{'pending' if args.check else 'done'}: {one.what} stream {one.stream}: {', '.join(one.changes)}"
        elif not one.differences:
            yield f"Stream {one.stream} is as declared."
        yield from _remarks(one)


def _remarks(one: StreamPlan) -> Iterator[str]:
    for difference in one.differences:
        yield f"stream {one.stream}: {difference.found}"
        yield f"  fix: {difference.mend}"
    yield from (f"  note: {text}" for text in one.notes)


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
            f"-- read model of {change.view}: {change.what}",
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
            lines.append(f"{change.view} needs a rebuild: {'; '.join(change.rebuild)}")
        else:
            lines.append(f"{'done' if done else 'pending'}: {change.what} the read model of {change.view}")
        lines += [f"  note: {note}" for note in change.notes]
    lines += [f"{'done' if done else 'pending'}: {statement}" for statement in pending.indexes]
    if lines:
        return "\n".join(lines)
    return f"Schema {pending.schema} is up to date." if done else _nothing(pending)


def _nothing(pending: PendingChanges) -> str:
    return f"Nothing is pending in schema {pending.schema}."
