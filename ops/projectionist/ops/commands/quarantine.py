"""`projectionist quarantine`: see what could not be read or contradicts itself, and decide about it."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.content import quarantined_entry, reveal
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import (
    Exit,
    UsageError,
    cell,
    lines,
    say,
    say_json,
    show_result,
    shown,
    table,
    warn,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from projectionist.core.operator import Act
    from projectionist.ops.cli.database import Database
    from projectionist.runner.admin.bulk_actions import BulkResult
    from projectionist.runner.admin.quarantine_actions import Place, QuarantineActions
    from projectionist.runner.admin.quarantine_queries import QuarantineFilter, QuarantineQueries

TOPIC = Topic.DECIDE
HELP = "list what could not be read, show one entry, and have it read again, correct or discard it"
EXAMPLE = """
projectionist quarantine list                                what is there, by consumer and error
projectionist quarantine list --each                         one line an entry
projectionist quarantine show 4711 --consumer OrderSummary   names of headers, cause, attempts; --reveal: content
projectionist quarantine retry --cause version --reason "new header mapping"         one, to see
projectionist quarantine retry --cause version --reason "new header mapping" --all   1, 5, 20, 100, all the rest
projectionist quarantine edit 4711 --consumer OrderSummary --header ce-aggregateversion=3 --reason "ticket 7"
projectionist quarantine discard 4711 --consumer OrderSummary --reason "a test message"
"""

GROUP = ("count", "consumers", "cause", "oldest", "sample", "why")
ENTRY = ("name", "seq", "cause", "id", "subject", "attempts", "received", "why")
OPERATIONS = ("retry", "discard")
"""What is an operation where it is done to all that filters choose."""
ACTS = ("list", "show", "retry", "edit", "discard")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("act", choices=ACTS, help="what to do")
    parser.add_argument(
        "seqs", nargs="*", type=app_arguments.whole, metavar="SEQ", help="entries by their stream sequence"
    )
    parser.add_argument("--consumer", metavar="NAME", help="only those of this projection or reactor")
    parser.add_argument("--cause", help="only those refused so, as the list shows it")
    parser.add_argument(
        "--error", metavar="TEXT", help="only those with this detail, as the list shows it, or its [digest]"
    )
    parser.add_argument(
        "--incarnation", type=app_arguments.whole, help="of the stream, if not the newest that has SEQ"
    )
    parser.add_argument(
        "--header", action="append", default=[], metavar="NAME=VALUE", help="edit: read it with this header"
    )
    parser.add_argument(
        "--without", action="append", default=[], metavar="NAME", help="edit: read it without this header"
    )
    app_arguments.declare_every(parser)
    parser.add_argument("--data", metavar="FILE", help="edit: read this payload instead")
    app_arguments.declare_wait(parser)
    app_arguments.declare_many(parser, "entry")


def run(args: argparse.Namespace) -> int:
    """Do it on the database of the settings."""
    if args.act in ("show", "edit") and len(args.seqs) != 1:
        raise UsageError(
            f"{args.act} takes one SEQ", remedy="`projectionist quarantine list --each` shows them"
        )
    if args.act == "list" and args.seqs:
        raise UsageError("list takes no SEQ", remedy="Use show for one entry")
    if args.act in ("retry", "discard") and bool(args.seqs) == _filtered(args):
        raise UsageError(
            f"{args.act} takes sequences or filters, one of the two", remedy="Name SEQ…, or --cause, --error"
        )
    app_arguments.check_reveal(args)
    if args.act not in ("list", "show"):
        app_arguments.need_reason(args, args.act)
    if not args.rate > 0 or args.limit < 1 or not args.wait >= 0:
        raise UsageError("--rate and --limit are above zero, --wait is not below it")
    return asyncio.run(_run(args))


def _filtered(args: argparse.Namespace) -> bool:
    chooses = any(value is not None for value in (args.cause, args.error, args.older_than))
    return chooses or (args.consumer is not None and not args.seqs)


async def _run(args: argparse.Namespace) -> int:
    from projectionist.core.digest import sought
    from projectionist.core.operator import Act
    from projectionist.ops.cli.database import database
    from projectionist.ops.cli.operation_progress import operate
    from projectionist.runner.admin.parked_queries import ParkedQueries
    from projectionist.runner.admin.quarantine_queries import QuarantineFilter, QuarantineQueries

    async with database("quarantine") as db:
        aside, parked = QuarantineQueries(db.connection, db.schema), ParkedQueries(db.connection, db.schema)
        if args.consumer is not None:
            await parked.consumer(args.consumer)
        chosen = QuarantineFilter(
            consumer=args.consumer, cause=args.cause, error=sought(args.error), older_s=args.older_than
        )
        if args.act == "list":
            return await _list(db, aside, chosen, args)
        if args.act == "show":
            return await _show(db, aside, args)
        if args.all and not args.seqs and args.act in OPERATIONS:
            return await operate(db, f"{args.act}_quarantine", chosen, args)
        return await _change(aside, chosen, Act(args.actor, args.reason), args)


async def _list(
    db: Database, aside: QuarantineQueries, chosen: QuarantineFilter, args: argparse.Namespace
) -> int:
    from projectionist.core.digest import stand_in

    groups = await aside.groups(chosen)
    found: Sequence[msgspec.Struct] = await aside.each(chosen, args.limit) if args.each else groups
    columns, rows = ENTRY if args.each else GROUP, [msgspec.structs.asdict(one) for one in found]
    if args.reveal:
        names = (name for row in rows for name in row.get("consumers", [row.get("name")]))
        await reveal(db.connection, db.schema, (f"{name}: quarantine" for name in names), args)
    for row in rows:
        whole = row.pop("own")
        row["why"] = (whole or row["why"]) if args.reveal else stand_in(row["why"])
    text = lines([shown(row) for row in rows], columns)
    show_result(args, {"entries" if args.each else "groups": rows}, text)
    return Exit.ATTENTION if groups else Exit.DONE


async def _show(db: Database, aside: QuarantineQueries, args: argparse.Namespace) -> int:
    found = await aside.show(args.seqs[0], args.consumer, args.incarnation)
    if args.reveal:
        things = (
            f"{row['name']}: sequence {row['seq']} of incarnation {row['incarnation']}" for row in found
        )
        await reveal(db.connection, db.schema, things, args)
    entries = [quarantined_entry(row, revealed=args.reveal) for row in found]
    if args.json:
        say_json({"entries": entries})
    else:
        say("\n\n".join(map(_text, entries)))
    return Exit.ATTENTION if any(row["state"] == "quarantined" for row in entries) else Exit.DONE


def _text(row: dict[str, Any]) -> str:
    apart = ("headers", "decisions", "data")
    parts = [
        table((name, cell(value)) for name, value in row.items() if value is not None and name not in apart),
        "\n".join(row["headers"]),
        lines(row["decisions"], ("at", "kind", "actor", "reason", "hash")),
        row.get("data"),
    ]
    return "\n\n".join(part for part in parts if part)


async def _change(
    aside: QuarantineQueries, chosen: QuarantineFilter, act: Act, args: argparse.Namespace
) -> int:
    left = 0
    if args.seqs:
        places = [place for seq in args.seqs for place in await _places(aside, seq, args)]
    else:
        found = await aside.each(chosen, idle=args.act == "retry")
        left = 0 if args.all else max(0, len(found) - 1)
        places = [(one.consumer, one.place) for one in found[: None if args.all else 1]]
    done = await aside.act(places, await _action_of(act, args), rate=args.rate)
    done.left = left
    return _report(done, args)


async def _places(aside: QuarantineQueries, seq: int, args: argparse.Namespace) -> list[tuple[int, Place]]:
    rows = await aside.show(seq, args.consumer, args.incarnation)
    if len(rows) > 1 and not args.every_consumer:
        names = ", ".join(row["name"] for row in rows)
        remedy = "Say --consumer, or --every-consumer"
        raise UsageError(f"sequence {seq} is in the quarantine of {names}", remedy=remedy)
    if len({(row["stream"], row["incarnation"]) for row in rows}) > 1:
        raise UsageError(f"sequence {seq} is of several streams", remedy="Say --consumer")
    waiting = [row for row in rows if row["state"] == "quarantined"] or rows[:1]
    return [(row["consumer"], (row["incarnation"], row["seq"])) for row in waiting]


async def _action_of(
    act: Act, args: argparse.Namespace
) -> Callable[[QuarantineActions, Place], Awaitable[None]]:
    if args.act == "retry":
        return lambda verbs, place: verbs.retry(place, act)
    if args.act == "discard":
        return lambda verbs, place: verbs.discard(place, act)
    headers: dict[str, str | None] = dict.fromkeys(args.without)
    for text in args.header:
        name, separator, value = text.partition("=")
        if not separator:
            raise UsageError(f"{text!r} is not NAME=VALUE", remedy="Write it like --header ce-id=e-17")
        headers[name] = value
    data = None if args.data is None else await asyncio.to_thread(Path(args.data).read_bytes)
    return lambda verbs, place: verbs.edit(place, act, headers=headers, data=data)


def _report(done: BulkResult, args: argparse.Namespace) -> int:
    if args.json:
        say_json({"act": args.act, **msgspec.structs.asdict(done)})
    else:
        say(f"{args.act}: {len(done.changed)} done")
        for seq, why in done.unchanged.items():
            say(f"{seq}: {why}")
        if done.left:
            warn(f"That was one. See what became of it, then say --all for {done.left} more.")
    return Exit.ATTENTION if done.unchanged or done.left or not done.changed else Exit.DONE
