"""`projectionist operations`: what takes long, whoever began it: see it, watch it, stop it, take it up."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

import msgspec

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import (
    Exit,
    UsageError,
    cell,
    lines,
    say,
    say_json,
    show_result,
    table,
    warn,
)

if TYPE_CHECKING:
    from projectionist.ops.cli.database import Database
    from projectionist.runner.operations.operation import OperationReport, SampleReport
    from projectionist.runner.operations.operation_store import OperationStore

TOPIC = Topic.DECIDE
HELP = "list operations, show one, watch it, stop it, and take up one that nobody carries out"
EXAMPLE = """
projectionist operations list                    what goes on and what has ended, the newest first
projectionist operations list --open             what goes on, or is carried out by nobody
projectionist operations show 17                 its samples, and what failed again
projectionist operations watch 17                until it ends
projectionist operations stop 17 --reason "the fix is not out yet"
projectionist operations take-up 17 --reason "the host it ran on is gone"
"""

ACTS = ("list", "show", "watch", "stop", "take-up")
LISTED = ("number", "operation", "state", "done", "failed", "left", "began", "who", "reason")
ITEM = ("consumer", "id", "seq", "key", "aggregate", "state", "note")
SAMPLE = ("group", "sample", "consumer", "items", "done", "failed", "refused", "left")
SHOWN = 50


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("act", choices=ACTS, help="what to do")
    parser.add_argument(
        "number", nargs="?", type=app_arguments.whole, help="which one, as the list numbers it"
    )
    parser.add_argument("--open", action="store_true", help="list: only those that have not ended")
    parser.add_argument(
        "--limit", type=app_arguments.whole, default=SHOWN, help=f"list: so many (default: {SHOWN})"
    )
    parser.add_argument(
        "--before", type=app_arguments.whole, metavar="NUMBER", help="list: only those with a lower number"
    )
    app_arguments.declare_act(parser, required=False)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it on the database of the settings."""
    if (args.number is None) != (args.act == "list"):
        told = "list takes no number" if args.act == "list" else f"{args.act} takes the number of one"
        raise UsageError(told, remedy="`projectionist operations list` shows numbers")
    if args.act in ("stop", "take-up"):
        app_arguments.need_reason(args, args.act)
    if args.limit < 1:
        raise UsageError("--limit is not below one")
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from projectionist.ops.cli.database import database
    from projectionist.runner.operations.operation_store import OperationStore

    async with database("operations") as db:
        store = OperationStore(db.connection, db.schema)
        match args.act:
            case "list":
                return await _list(store, args)
            case "show":
                return await _show(store, await store.show(args.number), args)
            case "watch":
                return await _watch(db, args)
            case "stop":
                return await _stop(store, args)
        return await _take_up(db, store, args)


async def _list(store: OperationStore, args: argparse.Namespace) -> int:
    from projectionist.ops.cli.operation_progress import as_row

    found = await store.each(only_open=args.open, before=args.before, limit=args.limit)
    rows = [as_row(one) | {"operation": _named(one)} for one in found]
    show_result(args, {"operations": rows}, lines(rows, LISTED))
    return Exit.ATTENTION if any(one.is_abandoned for one in found) else Exit.DONE


async def _show(store: OperationStore, one: OperationReport, args: argparse.Namespace) -> int:
    from projectionist.ops.cli.operation_progress import as_row, exit_code

    samples, items = await store.samples(one.number), await store.not_done(one.number, SHOWN)
    groups = await store.groups(one.number)
    if args.json:
        told = {"samples": msgspec.to_builtins(samples), "not_done": msgspec.to_builtins(items)}
        say_json(as_row(one) | told | {"groups": groups})
    else:
        rows = [msgspec.structs.asdict(item) for item in items]
        more = groups - len({sample.alike for sample in samples})
        parts = [
            _text(one),
            lines(list(map(_sample, samples)), SAMPLE),
            f"{more:,} more groups" if more else "",
        ]
        parts.append(lines(rows, ITEM))
        say("\n\n".join(filter(None, parts)))
    if one.is_abandoned and one.is_group:
        warn(f"Nobody carries it out. Go on: `projectionist operations take-up {one.number} --reason …`")
    return exit_code(one)


async def _watch(db: Database, args: argparse.Namespace) -> int:
    from projectionist.ops.cli.operation_progress import watch
    from projectionist.runner.operations.operation_store import lent_store

    found = await watch(db, args.number)
    if found is None:
        told = {"operation": args.number, "state": "done", "note": "done at once, which leaves no row"}
        show_result(args, told, f"operation {args.number} is done: what is done at once leaves no row")
        return Exit.DONE
    async with lent_store(db.settings.postgres) as store:  # the one from before may have broken off meanwhile
        return await _show(store, found, args)


async def _stop(store: OperationStore, args: argparse.Namespace) -> int:
    from projectionist.core.operator import Act

    ended = await store.ask_to_stop(args.number, Act(args.actor, args.reason))
    text = "has ended" if ended else "is asked to stop, and does so before its next step"
    show_result(args, {"operation": args.number, "ended": ended}, f"operation {args.number} {text}")
    return Exit.DONE


async def _take_up(db: Database, store: OperationStore, args: argparse.Namespace) -> int:
    from projectionist.core.operator import Act
    from projectionist.ops.cli.operation_progress import carry_out
    from projectionist.runner.rebuild.build_lease import owner

    grant = await store.take_up(args.number, Act(args.actor, args.reason), owner())
    return await _show(store, await carry_out(db, grant, args.actor), args)


def _named(one: OperationReport) -> str:
    return " ".join((*one.words, *(f"{name}={value}" for name, value in one.chosen.items())))


def _text(one: OperationReport) -> str:
    facts = {
        "operation": f"{one.number}: {_named(one)}",
        "state": one.state,
        "why": one.note,
        "who": f"{one.who}: {one.reason}",
        "began": one.began,
        "ended": one.ended,
        "matched": one.matched,
        "done": one.done,
        "failed again": one.failed,
        "refused": one.refused,
        "left": one.left,
        "a second": None
        if one.per_s is None
        else f"{one.per_s:.1f}" + (f", at most {one.rate:g}" if one.rate else ""),
        "carried out by": f"{one.owner}, sign of life {one.silent_s:.0f} s ago"
        if one.is_carried_out
        else None,
        "last sign of life": one.beat if one.is_abandoned else None,
        "asked to stop by": one.stop_asked_by and f"{one.stop_asked_by}: {one.stop_reason}",
    }
    return table((name, cell(value)) for name, value in facts.items() if value is not None)


def _sample(one: SampleReport) -> dict[str, object]:
    """Return a sample as a line; what has not been touched is left."""
    row = msgspec.structs.asdict(one) | {"left": one.left + one.waiting + one.tried}
    return row | {"group": one.alike, "sample": one.sample + 1}
