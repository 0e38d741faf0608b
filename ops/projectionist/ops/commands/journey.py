"""`projectionist journey`: everything that happened to one event."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.content import masked_journey, reveal
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, cell, lines, note, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nats.aio.client import Client

    from projectionist.core.settings.settings import Settings
    from projectionist.runner.admin.event_history import AggregateStatus, Journey, Passage
    from projectionist.runner.admin.flow_history import By, Flows
    from projectionist.runner.admin.row_names import RowNames
    from projectionist.runner.jetstream.api import StoredMessage

TOPIC = Topic.LOOK
HELP = "show everything that happened to an event, an aggregate, or the event of an intent"
EXAMPLE = """
projectionist journey e-17                     one event: arrivals, consumers, intents, attempts, replies
projectionist journey --aggregate order/7      where an aggregate stands, and its newest events
projectionist journey e-17 --reveal --reason "ticket 7"   with texts of errors and the answers of providers
projectionist journey e-17 --archive old/      what went from the inbox into these files too
projectionist journey --intent KEY             the event that this side effect came from
projectionist journey --correlation c-4        all events of one flow, with their consumers and intents
                                               (setting postgres.correlation_index)
projectionist journey --trace 4bf92f3577b34da6a3ce929d0e0e4736   those of one trace (setting postgres.trace_index)
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("id", nargs="?", metavar="ID", help="the event's id")
    parser.add_argument("--source", help="the event's source, where several use its id")
    parser.add_argument("--aggregate", metavar="TYPE/ID", help="an aggregate instead of an event")
    parser.add_argument("--intent", metavar="KEY", help="the event of this intent")
    parser.add_argument("--correlation", metavar="ID", help="the events with this correlation id")
    parser.add_argument("--trace", metavar="ID", help="the events that came in the trace with this id")
    parser.add_argument("--consumer", metavar="NAME", help="--aggregate: with this consumer only")
    parser.add_argument(
        "--app",
        metavar="APP",
        help="module:attribute whose classes name rows that aggregates share (default: `app` in the settings)",
    )
    parser.add_argument(
        "--archive",
        type=Path,
        metavar="FOLDER",
        help="read files of the archive here (default: archive_folder of [retention], where rows go to files)",
    )
    parser.add_argument(
        "--limit", type=app_arguments.whole, default=50, help="so many events of a list (default: 50)"
    )
    app_arguments.declare_reveal(parser, "texts of errors, destinations, answers of providers")
    app_arguments.declare_act(parser, required=False)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Look it up in the database of the settings."""
    asked = (args.id, args.aggregate, args.intent, args.correlation, args.trace)
    if sum(value is not None for value in asked) != 1:
        raise UsageError(
            "journey takes one thing", remedy="An ID, --aggregate, --intent, --correlation or --trace"
        )
    if args.limit < 1:
        raise UsageError("--limit is at least one")
    app_arguments.check_reveal(args)
    if args.archive is not None and not args.archive.is_dir():
        raise UsageError(
            f"--archive: {args.archive} is no folder",
            remedy="Name the one that holds `inbox` and `intents`, like archive_folder of [retention]",
        )
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from projectionist.ops.cli.database import database
    from projectionist.runner.admin.event_history import Journeys
    from projectionist.runner.admin.flow_history import Flows

    async with AsyncExitStack() as broker, database("journey") as db:
        by_event = args.id is not None or args.intent is not None
        names = await _names(args.app, db.settings, broker) if by_event else None
        journeys = Journeys(db.connection, db.schema, args.archive or _archive(db.settings), names)
        if args.aggregate is not None:
            found = await journeys.aggregate(args.aggregate, args.consumer, args.limit)
            document = {"aggregate": args.aggregate, "consumers": found, "notes": journeys.notes}
            show_result(args, document, "\n\n".join(map(_status, found)))
        elif not by_event:
            await _show_flow(Flows(db.connection, db.schema, db.settings.postgres), args)
        else:
            events_found = await (
                journeys.events(args.id, args.source) if args.id else journeys.intent(args.intent)
            )
            if args.reveal:
                await reveal(db.connection, db.schema, _things(events_found), args)
            else:
                events_found = list(map(masked_journey, events_found))
            show_result(
                args,
                {"events": events_found, "notes": journeys.notes},
                "\n\n".join(map(_journey, events_found)),
            )
    for text in () if args.json else journeys.notes:
        note(text)
    return Exit.DONE


async def _names(app: str | None, settings: Settings, broker: AsyncExitStack) -> RowNames | None:
    """Load the app's classes, if it is named; a stream is read where an event has to be, over one connection."""
    from projectionist.core.nats.connections import connect
    from projectionist.runner.admin.row_names import RowNames
    from projectionist.runner.app import App
    from projectionist.runner.jetstream import api

    named = app or settings.app
    if named is None:
        return None
    clients: list[Client] = []
    try:
        definitions = app_arguments.load(named, App).views
    except Exception as error:
        if app is not None:
            raise
        note(f"{named} cannot be loaded, so rows that aggregates share are not named: {error}")
        return None

    async def message(stream: str, seq: int) -> StoredMessage | None:
        if not clients:
            clients.append(await connect(settings.nats, name="projectionist journey", within_s=3))
            broker.push_async_callback(clients[0].close)
        return await api.message(clients[0], stream, seq)

    return RowNames(definitions, settings, message)


def _archive(settings: Settings) -> Path | None:
    """Return where this project keeps rows in files, if it does."""
    found = settings.retention
    return Path(found.archive_folder) if found.archive == "files" and found.archive_folder else None


async def _show_flow(flows: Flows, args: argparse.Namespace) -> None:
    """Show the events of one flow in brief, each with its consumers and intents."""
    by: By = "trace" if args.correlation is None else "correlation"
    found = await flows.find(by, getattr(args, by), args.limit)
    events = [_in_brief(masked_journey(one)) for one in found.events]
    columns = (
        "received",
        "source",
        "id",
        "type",
        "aggregate",
        "version",
        "causation",
        "consumers",
        "intents",
    )
    text = lines([_told_in_brief(one) for one in events], columns)
    told = {name: getattr(found, name) for name in ("more", "count", "is_whole", "notes")}
    show_result(args, {by: found.name, "events": events, **told}, text)
    for each in () if args.json else found.notes:
        note(each)
    if found.more and not args.json:
        of = (
            f"{found.count:,} that there are"
            if found.is_whole
            else f"at least {found.count:,}; not all were read"
        )
        note(f"these are {len(events):,} of {of}: --limit")


OF_EVENT = ("source", "id", "type", "schema", "aggregate", "version", "correlation", "causation", "trace")
OF_PASSAGE = (
    *(
        "consumer",
        "state",
        "verdict",
        "idle",
        "stream",
        "incarnation",
        "seq",
        "subject",
        "received",
        "processed",
    ),
    *("parked", "intents"),
)


def _in_brief(one: Journey) -> dict[str, Any]:
    passages = [{name: getattr(each, name) for name in OF_PASSAGE} for each in one.consumers]
    received = min((each.received for each in one.consumers if each.received is not None), default=None)
    return {"received": received, **{name: getattr(one, name) for name in OF_EVENT}, "consumers": passages}


def _told_in_brief(event: Mapping[str, Any]) -> dict[str, Any]:
    passages = event["consumers"]
    told = [f"{each['consumer']}: {each['state']}" for each in passages if each["state"]]
    intents = [
        f"{one['slot']} to {one['provider']}: {one['state']}" for each in passages for one in each["intents"]
    ]
    return {**event, "consumers": ", ".join(told), "intents": ", ".join(intents)}


def _things(journeys: Sequence[Journey]) -> Iterator[str]:
    return (f"{one.consumer}: {event.source}/{event.id}" for event in journeys for one in event.consumers)


# -- for people ------------------------------------------------------------------------------------------------------


def _journey(one: Journey) -> str:
    head = [f"{one.type or 'event'} {one.id} of {one.source}"]
    if one.aggregate is not None:
        head[0] += f": {one.aggregate}" + ("" if one.version is None else f" version {one.version}")
    links = (("correlation", one.correlation), ("causation", one.causation), ("trace", one.trace))
    head += [f"{name} {value}" for name, value in links if value]
    parts = ["\n".join(head), *("\n".join(_passage(passage)) for passage in one.consumers)]
    if one.acts:
        parts.append(lines(one.acts, ("at", "who", "action", "object", "reason")))
    return "\n\n".join(parts)


def _passage(one: Passage) -> Iterator[str]:
    from projectionist.runner.admin.event_history import ADDED

    state = one.state or ("has asked for it" if one.note == ADDED else "not known")
    yield f"{one.consumer}: {state}" + (f" ({one.note})" if one.note else "")
    if one.received is not None:
        place = f"sequence {one.seq} of {one.stream} (incarnation {one.incarnation}), {one.subject}"
        yield f"  received   {cell(one.received)}  {place}"
        process = f", {one.host}:{one.pid}" if one.host else ""
        yield f"  {one.state:<10} {cell(one.processed)}  {_how(one)}batch {one.batch}{process}"
    if one.idle:
        yield "  no effect  the condition (when=) of its handler did not hold"
    if one.archived:
        yield "  archived   retention has moved it from the inbox to the archive"
    if one.rows:
        yield f"  rows       {', '.join(one.rows)}" + (f" ({one.row_note})" if one.row_note else "")
    if one.parked is not None:
        waits = "a person or new code" if one.parked["waits"] else f"{cell(one.parked['next_try'])}"
        yield f"  waits      for {waits}: {one.parked['why']} ({one.parked['attempts']} attempts)"
    for each in one.beside:
        by = f" by {each.who}" if each.who else ""
        text = " ".join(filter(None, (each.what, each.why and f"({each.why})")))
        place = "" if each.seq is None else f"sequence {each.seq}  "
        yield f"  {each.kind:<10} {cell(each.at)}  {place}{text}{by}"
    for intent in one.intents:
        row = "" if intent["scope"] is None else f" of row {intent['scope']}"
        yield (
            f"  intent     {cell(intent['created'])}  {intent['slot']}{row} to {intent['provider']}: "
            f"{intent['state']}"
        )
        yield f"             key {intent['key']}"
        if intent["scheduled"] is not None:
            yield f"             {_when(intent)}"
        for attempt in intent["attempts"]:
            reply = " ".join(
                str(attempt[name]) for name in ("status", "provider_id", "reason") if attempt[name]
            )
            yield f"    attempt {attempt['attempt']}  {cell(attempt['started'])}  {attempt['outcome']} {reply}".rstrip()


def _when(intent: Mapping[str, Any]) -> str:
    """Return when an intent was to be sent, and what it waits for or who has taken it back."""
    text = f"scheduled for {cell(intent['scheduled'])}"
    if intent["cancelled_by"] is not None:
        return f"{text}, taken back by event {cell(intent['cancelled_by'])}"
    return text if intent["waits_for"] is None else f"{text}, waits for: {intent['waits_for']}"


def _how(one: Passage) -> str:
    """Return what it went through before it was settled."""
    if one.state == "parked" or one.verdict not in ("gap", "blocked"):
        return ""
    return "after it was parked, " if one.processed != one.received else ""


def _status(one: AggregateStatus) -> str:
    text = f"{one.consumer}: version {one.version}, {one.head}" + (f" ({one.finding})" if one.finding else "")
    text += f", {one.parked} parked" if one.parked else ""
    if one.removed > 0:
        text += f". {one.removed} of its versions are no longer in the inbox: retention has removed them"
    kept = sum(event["archived"] for event in one.events)
    text += f". {kept} of those below come from the archive" if kept else ""
    columns = ("version", "id", "type", "state", "verdict", "seq", "received", "processed")
    return f"{text}\n{lines(one.events, columns)}".rstrip()
