"""`projectionist events`: read all history of a stream as an app's consumers would, and say what they would fail on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.content import leave_texts_out
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, say, say_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from projectionist.projections.compiled.definition import Definition
    from projectionist.runner.preview.check_result import (
        ConsumerCheck,
        StreamCheck,
        Trouble,
        TypeCheck,
    )

TOPIC = Topic.HISTORY
HELP = "decode all history of a stream dry and list, by type and schema, what this code would fail on"
EXAMPLE = """
projectionist events check shop.app:app                            every stream of the app, as each consumer reads it
projectionist events check shop.app:app --consumer OrderSummary --fold      run its handlers too
projectionist events check shop.app:app --stream SHOP --from 2026-01-31T12:00:00Z
projectionist events check shop.app:app --reveal --reason "ticket 7"        with the payload of each example
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("act", choices=("check",), help="what to do")
    app_arguments.declare(parser)
    parser.add_argument("--consumer", action="append", metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--stream", metavar="NAME", help="only the consumers of this stream")
    parser.add_argument(
        "--from",
        dest="first",
        metavar="WHERE",
        help="a stream sequence, or a time with its zone (default: all)",
    )
    parser.add_argument(
        "--fold", action="store_true", help="run the handlers too, over rows that begin with nothing"
    )
    parser.add_argument("--throttle", type=float, metavar="N", help="read at most N events a second")
    app_arguments.declare_reveal(parser, "payloads of examples, texts of errors")
    app_arguments.declare_act(parser, required=False)
    parser.add_argument("--json", action="store_true", help="end with one JSON document")


def run(args: argparse.Namespace) -> int:
    """Check; the database is asked only where payloads are revealed, which is recorded there."""
    from projectionist.ops.cli import command_context

    app_arguments.check_reveal(args)
    if args.fold and args.first is not None:
        raise UsageError(
            "--fold begins with the first event: rows are made of all of them", remedy="Leave out --from"
        )
    return command_context.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from projectionist.core.nats import connections
    from projectionist.core.operator import Act
    from projectionist.ops.cli.command_context import progress
    from projectionist.ops.cli.find_servers import settings
    from projectionist.ops.cli.reveal import record_reveal
    from projectionist.runner.app import App
    from projectionist.runner.jetstream.stream_range import span_of
    from projectionist.runner.preview.event_check import check_events

    found = settings()
    app, _ = app_arguments.split(args, found.app)
    chosen = _chosen(app_arguments.load(app, App).chosen_views(args.consumer or ()), args.stream)
    if args.reveal:
        names = [one.name for definitions in chosen.values() for one in definitions]
        await record_reveal(found, "events", names, "events check", Act(args.actor, args.reason))
    client = await connections.connect(found.nats, name="projectionist events")
    checked = []
    try:
        for stream, definitions in chosen.items():
            first = 1 if args.first is None else (await span_of(client, stream, args.first, None)).first
            bar = progress(stream, args.throttle, what="events")
            options = {"first": first, "fold": args.fold, "reveal": args.reveal}
            checked.append(await check_events(client, definitions, found, bar, **options))
    finally:
        await client.close()
    if not args.reveal:
        for one in checked:
            leave_texts_out(one)
    if args.json:
        say_json({"checked": checked})
    else:
        say("\n\n".join(map(_shown, checked)))
    return Exit.ATTENTION if any(one.troubled for one in checked) else Exit.DONE


def _chosen(definitions: Sequence[Definition], stream: str | None) -> dict[str, list[Definition]]:
    """Return the consumers by the stream they read."""
    streams: dict[str, list[Definition]] = {}
    for one in definitions:
        if stream in (None, one.stream):
            streams.setdefault(one.stream, []).append(one)
    if not streams:
        raise UsageError(
            f"none of these consumers reads a stream {stream!r}",
            remedy=f"They read: {', '.join(sorted({one.stream for one in definitions}))}",
        )
    return streams


def _shown(one: StreamCheck) -> str:
    lines = [f"{one.stream} {one.first}..{one.last}: {one.messages:,} messages"]
    lines += [
        f"  nobody handles {each.type} schema {each.schema}: {each.messages:,}, first at sequence {each.first.seq}"
        for each in one.unhandled
    ]
    return "\n".join([*lines, *(line for consumer in one.consumers for line in _consumer(consumer, one))])


def _consumer(one: ConsumerCheck, stream: StreamCheck) -> Iterator[str]:
    yield f"{one.consumer}: {one.messages:,} messages, {one.troubled:,} of them in trouble"
    for trouble in one.unreadable.listed:
        yield from _trouble(trouble)
    for check in one.types:
        yield from _type(check)
    if one.not_folded:
        yield f"  handlers did not run: {one.not_folded}"
    if (fold := one.fold) is not None:
        yield f"  handlers took {fold.events:,} events and made {fold.rows:,} rows; nothing was written"
        if fold.blocked:
            yield f"  {fold.blocked:,} events stand behind one that fails"
        if fold.held_aggregates:
            yield f"  of {fold.held_aggregates:,} aggregates a version lacks, and what follows was not folded"
        if not stream.whole:
            yield "  the stream has lost messages: rows begin with what is left"
        yield from (f"  asked for, and not made: {n:,} x {slot}" for slot, n in fold.intents.items())


def _type(one: TypeCheck) -> Iterator[str]:
    read = f"read as {one.event}" if one.event else "no handler"
    path = f", by {', '.join(one.upcasters)}" if one.upcasters else ""
    lacks = f"; {one.lacks}" if one.lacks else ""
    yield f"  {one.type} schema {one.schema}: {one.messages:,}, {read}{path}{lacks}"
    for trouble in one.troubles.listed:
        yield from (f"  {line}" for line in _trouble(trouble))
    if one.troubles.more:
        yield f"    {one.troubles.more:,} more, of yet other kinds"


def _trouble(one: Trouble) -> Iterator[str]:
    first = one.first
    place = f"sequence {first.seq}" + (f", {first.aggregate}" if first.aggregate else "")
    place += f" v{first.version}" if first.version is not None else ""
    yield f"  {one.kind}: {one.count:,} x {one.text} (first: {place}, {first.size:,} bytes)"
    if first.payload is not None:
        yield f"    {first.payload}"
