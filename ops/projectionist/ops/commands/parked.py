"""`projectionist parked`: see what waits and why, and decide about it."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.content import parked_event, reveal, why_parked
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
    from collections.abc import Mapping, Sequence

    from projectionist.ops.cli.database import Database
    from projectionist.runner.admin.bulk_actions import BulkHandling, BulkResult
    from projectionist.runner.admin.parked_queries import (
        ParkedEntry,
        ParkedFilter,
        ParkedGroup,
        ParkedQueries,
    )

TOPIC = Topic.DECIDE
HELP = "list parked and failed events, show one, and retry, skip, discard, edit them or accept a gap"
EXAMPLE = """
projectionist parked list                               what waits, by consumer, type and error
projectionist parked list --consumer OrderSummary --each     one line an event
projectionist parked show e-17 --consumer OrderSummary       one event: envelope, attempts, class of the error
projectionist parked show e-17 --reveal --reason "ticket 7"  its payload, error and stack too, which is recorded
projectionist parked retry --error "[3fa9c1d2]" --reason "mended"         one, to see
projectionist parked retry --error "[3fa9c1d2]" --reason "mended" --all   1, 5, 20, 100, all the rest
projectionist parked skip e-17 --consumer OrderSummary --reason "test order"
projectionist parked discard e-18 --consumer OrderSummary --reason "sent by mistake"
projectionist parked accept-gap --aggregate order/7 --versions 3..4 --reason "never published"
projectionist parked edit e-17 --consumer OrderSummary --data fixed.json --reason "wrong unit"
"""

OPERATIONS = ("retry", "skip", "discard")
"""What is an operation where it is done to all that filters choose."""
ACTS = ("list", "show", "retry", "skip", "discard", "accept-gap", "edit")
GROUP = ("count", "waiting", "consumer", "cause", "type", "oldest", "sample", "why")
EVENT = ("name", "id", "type", "aggregate", "version", "cause", "attempts", "parked_at", "why")
FILTERS = ("consumer", "cause", "type", "aggregate", "error", "older_than")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("act", choices=ACTS, help="what to do")
    parser.add_argument("ids", nargs="*", metavar="ID", help="events by id; or choose by the filters")
    parser.add_argument("--consumer", metavar="NAME", help="only those of this projection or reactor")
    parser.add_argument(
        "--cause", choices=("failed", "gap", "blocked", "stored"), help="only those parked so"
    )
    parser.add_argument("--type", metavar="TYPE", help="only events of this type")
    parser.add_argument("--aggregate", metavar="TYPE/ID", help="only those of this aggregate")
    parser.add_argument(
        "--error", metavar="TEXT", help="only those with this reason, as the list shows it, or its [digest]"
    )
    parser.add_argument("--source", help="the event's source, where an id alone is not enough")
    app_arguments.declare_wait(parser)
    parser.add_argument(
        "--versions", metavar="A..B", help="accept-gap: these (default: all that are missing)"
    )
    parser.add_argument("--data", metavar="FILE", help="edit: the corrected payload")
    app_arguments.declare_every(parser)
    app_arguments.declare_many(parser, "event")


def run(args: argparse.Namespace) -> int:
    """Do it on the database of the settings."""
    _check(args)
    return asyncio.run(_run(args))


def _check(args: argparse.Namespace) -> None:
    if args.act in ("show", "edit") and len(args.ids) != 1:
        raise UsageError(f"{args.act} takes one ID", remedy="`projectionist parked list --each` shows ids")
    if args.act == "list" and args.ids:
        raise UsageError("list takes no ID", remedy="Use show for one event")
    if args.act in ("retry", "skip", "discard", "accept-gap") and not (args.ids or _filtered(args)):
        raise UsageError(
            f"{args.act} takes ids or filters", remedy="Name ID…, or --consumer, --error and the like"
        )
    app_arguments.check_reveal(args)
    if args.act not in ("list", "show"):
        app_arguments.need_reason(args, args.act)
    if args.act == "edit" and not args.data:
        raise UsageError("edit needs --data FILE", remedy="Write the corrected payload into a file")
    if not args.rate > 0 or not args.wait >= 0 or args.limit < 1:
        raise UsageError("--rate, --wait and --limit are not below zero, --rate and --limit not zero either")


def _filtered(args: argparse.Namespace) -> bool:
    return any(getattr(args, name) is not None for name in FILTERS)


async def _run(args: argparse.Namespace) -> int:
    from projectionist.ops.cli.database import database
    from projectionist.runner.admin.parked_queries import ParkedQueries

    async with database("parked") as db:
        parked = ParkedQueries(db.connection, db.schema)
        if args.consumer is not None:
            await parked.consumer(args.consumer)
        if args.act == "list":
            return await _list(db, parked, args)
        if args.act == "show":
            return await _show(db, parked, args)
        return await _change(db, parked, args)


def _chosen(args: argparse.Namespace) -> ParkedFilter:
    from projectionist.core.digest import sought
    from projectionist.runner.admin.parked_queries import ParkedFilter

    return ParkedFilter(
        **{name: getattr(args, name) for name in FILTERS if name not in ("older_than", "error")},
        error=sought(args.error),
        older_s=args.older_than,
        ids=args.ids or None,
        source=args.source,
    )


async def _list(db: Database, parked: ParkedQueries, args: argparse.Namespace) -> int:
    groups = await parked.groups(_chosen(args))
    if args.each:
        events = await parked.each(_chosen(args), args.limit)
        rows = await _told(db, parked, {(one.name, one.source, one.id): one for one in events}, args)
        show_result(args, {"events": rows}, lines(rows, EVENT))
    else:
        found = {(one.consumer, one.source, one.sample): one for one in groups}
        rows = await _told(db, parked, found, args)
        show_result(args, {"groups": rows}, lines(rows, GROUP))
    return Exit.ATTENTION if any(group.waiting for group in groups) else Exit.DONE


async def _told(
    db: Database,
    parked: ParkedQueries,
    found: Mapping[tuple[str, str, str], ParkedEntry | ParkedGroup],
    args: argparse.Namespace,
) -> list[dict[str, Any]]:
    """Return rows of a list; the text of an error is content, for which its class, place and digest stand."""
    if args.reveal:
        await reveal(db.connection, db.schema, (f"{name}: parked events" for name, _, _ in found), args)
    failures = {} if args.reveal else await parked.failures(list(found))
    rows = []
    for key, one in found.items():
        row = msgspec.structs.asdict(one)
        whole = row.pop("own")
        if args.reveal:
            row["why"] = whole or row["why"]
        else:
            row["why"] = why_parked(row, failures.get(key, ""))
        rows.append(row)
    return rows


# -- show ------------------------------------------------------------------------------------------------------------


async def _show(db: Database, parked: ParkedQueries, args: argparse.Namespace) -> int:
    found = await parked.show(args.ids[0], args.consumer, args.source)
    failures: Mapping[tuple[str, str, str], str] = {}
    if args.reveal:
        things = (f"{row['name']}: {row['source']}/{row['id']}" for row in found)
        await reveal(db.connection, db.schema, things, args)
    else:
        failures = await parked.failures([(row["name"], row["source"], row["id"]) for row in found])
    shown = [parked_event(row, failures, revealed=args.reveal) for row in found]
    if args.json:
        say_json({"events": shown})
    else:
        say("\n\n".join(map(_text, shown)))
    return Exit.ATTENTION if any(row["waits"] for row in found) else Exit.DONE


def _text(row: dict[str, Any]) -> str:
    row, stack, data = dict(row), row.get("stack"), row.get("data")
    decisions = row.pop("decisions")
    facts = table(
        (name, cell(value))
        for name, value in row.items()
        if value is not None and name not in ("stack", "data")
    )
    parts = [facts, stack, lines(decisions, ("at", "kind", "actor", "reason", "hash"))]
    if "data" in row:
        parts.append(data if data is not None else f"the payload is in the stream, at sequence {row['seq']}")
    return "\n\n".join(part for part in parts if part)


# -- change ----------------------------------------------------------------------------------------------------------


async def _change(db: Database, parked: ParkedQueries, args: argparse.Namespace) -> int:
    from projectionist.core.operator import Act
    from projectionist.ops.cli.operation_progress import operate
    from projectionist.runner.admin.bulk_actions import BulkHandling

    if args.all and not args.ids and args.act in OPERATIONS:
        return await operate(db, f"{args.act}_parked", _chosen(args), args)
    handling = BulkHandling(db.connection, db.schema, Act(args.actor, args.reason), rate=args.rate)
    targets = await _targets(parked, args)
    left = 0
    if not (args.ids or args.all):
        chosen = [
            one for one in targets if one is targets[0] or (args.every_consumer and _alike(one, targets[0]))
        ]
        left, targets = len(targets) - len(chosen), chosen
    done = await _done(db, parked, handling, targets, args)
    done.left += max(left, 0)
    return _report(done, targets, args)


async def _targets(parked: ParkedQueries, args: argparse.Namespace) -> list[ParkedEntry]:
    from projectionist.core.operator import NotThere
    from projectionist.runner.admin.parked_queries import MOST

    if not args.ids and args.act != "discard":
        return await parked.heads(_chosen(args))
    found = await parked.each(_chosen(args), MOST)
    for event in args.ids:
        matching = [one for one in found if one.id == event]
        if not matching:
            raise NotThere(
                f"no event {event!r} is parked", remedy="`projectionist journey` says what became of it"
            )
        if len(matching) > 1 and not (args.every_consumer and len({one.source for one in matching}) == 1):
            where = ", ".join(f"{one.name} (source {one.source!r})" for one in matching)
            raise UsageError(
                f"{event!r} is parked by {where}", remedy="Say --consumer or --source, or --every-consumer"
            )
    return found


async def _done(
    db: Database,
    parked: ParkedQueries,
    handling: BulkHandling,
    targets: Sequence[ParkedEntry],
    args: argparse.Namespace,
) -> BulkResult:
    match args.act:
        case "retry":
            return await handling.retry(targets)
        case "skip":
            return await handling.skip(targets)
        case "discard":
            return await handling.discard(targets)
        case "accept-gap":
            return await _accept(parked, handling, targets, args)
    from projectionist.runner.admin.bulk_actions import BulkResult as Nothing

    done = Nothing()
    for one in targets:
        edited = await _edit(db, handling, one, args)
        done.changed += edited.changed
        done.unchanged |= edited.unchanged
    return done


def _alike(one: ParkedEntry, other: ParkedEntry) -> bool:
    """Return whether two consumers wait for the same: one aggregate, or one event."""
    return one.place == other.place and (one.ordered or one.source == other.source)


async def _accept(
    parked: ParkedQueries, handling: BulkHandling, targets: Sequence[ParkedEntry], args: argparse.Namespace
) -> BulkResult:
    gaps = [one for one in targets if one.ordered and (one.cause != "failed" or one.finding)]
    if args.versions is None:
        return await handling.accept_gap([(one, *await parked.lacks(one)) for one in gaps])
    first, separator, last = args.versions.partition("..")
    if not (first.isdecimal() and (last.isdecimal() or not separator)):
        raise UsageError(f"{args.versions!r} is not A..B", remedy="Write it like --versions 3..4")
    if len(targets) != 1 and not (args.every_consumer and all(_alike(one, targets[0]) for one in targets)):
        raise UsageError(
            f"--versions is for one aggregate, not for {len(targets)}",
            remedy="Say --aggregate, and --consumer or --every-consumer",
        )
    return await handling.accept_gap([(one, int(first), int(last or first)) for one in targets])


async def _edit(
    db: Database, handling: BulkHandling, one: ParkedEntry, args: argparse.Namespace
) -> BulkResult:
    from projectionist.runner.admin.parked_queries import corrected

    data = await asyncio.to_thread(Path(args.data).read_bytes)
    digest = await corrected(db.connection, db.schema, one, data, db.settings.policy(one.name))
    return await handling.edit(one, data, digest)


def _report(done: BulkResult, targets: Sequence[ParkedEntry], args: argparse.Namespace) -> int:
    if args.json:
        say_json({"act": args.act, **msgspec.structs.asdict(done)})
        return Exit.ATTENTION if done.unchanged or done.left or not done.changed else Exit.DONE
    say(f"{args.act}: {len(done.changed)} done")
    for event, why in done.unchanged.items():
        say(f"{event}: {why}")
    if done.note:
        warn(done.note)
    elif done.left:
        look = f"projectionist parked show {targets[0].id} --consumer {targets[0].name}"
        warn(f"That was one. See what became of it (`{look}`), then say --all for {done.left} more.")
    return Exit.ATTENTION if done.unchanged or done.left or not done.changed else Exit.DONE
