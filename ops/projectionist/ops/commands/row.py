"""`projectionist row`: a row as it was at a version or a time, folded again from its events."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from msgspec.structs import replace

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.content import hidden, values_of
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, cell, lines, say, say_json, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from projectionist.runner.preview.row_history import PastRow

TOPIC = Topic.LOOK
HELP = "show a row as it was at a version, a time or a sequence, made of its events; changes nothing"
EXAMPLE = """
projectionist row shop.app:app OrderSummary o-17 --at 3                         behind version 3 of its aggregate
projectionist row shop.app:app OrderSummary o-17 --at 2026-01-31T12:00:00Z      by what the stream held then
projectionist row shop.app:app CustomerSpend ann --at seq:4711                  by sequence, for rows that are shared
projectionist row shop.app:app OrderSummary o-17 --history                      which columns each event changed
projectionist row shop.app:app OrderSummary o-17 --at 3 --reveal --reason "ticket 7"    with the values
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser, names="the projection and the row's key")
    parser.add_argument(
        "--at",
        metavar="WHEN",
        help="a version, a time with its zone, or seq:N (default: as its events make it now)",
    )
    parser.add_argument("--history", action="store_true", help="list what each event changed")
    parser.add_argument(
        "--limit", type=app_arguments.whole, default=100, help="so many of them, the newest (default: 100)"
    )
    parser.add_argument("--throttle", type=float, metavar="N", help="read at most N events a second")
    app_arguments.declare_reveal(parser, "the values of the row")
    app_arguments.declare_act(parser, required=False)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Fold it."""
    from projectionist.ops.cli import command_context

    if args.limit < 1:
        raise UsageError("--limit is at least one")
    app_arguments.check_reveal(args)
    return command_context.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from projectionist.core.operator import Act
    from projectionist.ops.cli.command_context import at_work, progress
    from projectionist.ops.cli.reveal import record_reveal
    from projectionist.runner.preview.row_history import row_at

    async with at_work(args, consumers=1, command="row", read_only=True) as work:
        if len(work.names) != 1:
            raise UsageError("the row's key is missing", remedy="Write `projectionist row APP NAME KEY`")
        (definition,), (key,) = work.definitions, work.names
        bar = progress(definition.name, args.throttle, what="row")
        given = (work.queries, definition, work.settings, work.client, key, bar, args.at)
        then = await row_at(*given, states=args.limit if args.history else 1)
        if args.reveal:
            act = Act(args.actor, args.reason)
            await record_reveal(work.settings, "row", [definition.name], f"row {key}", act)
    if not args.reveal:
        then.row = hidden(then.row)
        then.states = [replace(one, changed=hidden(one.changed)) for one in then.states]
    if args.json:
        say_json({"row": then})
    else:
        say("\n".join(_shown(then, history=args.history)))
    if then.is_unknown:
        return Exit.FAILED
    return Exit.ATTENTION if then.lost or then.waiting or then.differs else Exit.DONE


def _shown(one: PastRow, *, history: bool) -> Iterator[str]:
    what = f"{one.consumer} {one.key}" + (f" at {one.at}" if one.at else "")
    if one.is_unknown:
        yield f"{what}: there is no such row, and no event makes one"
        return
    if one.lost:
        yield f"{what}: cannot be told: the stream no longer holds {one.lost}, which live has applied"
        return
    last = f", the last {one.states[-1].event} (sequence {one.states[-1].seq})" if one.states else ""
    row = "" if one.row is not None else ": no row"
    yield f"{what}{row}: {one.events:,} events{last}; {one.later:,} came later"
    if one.row is not None:
        yield table((name, cell(value)) for name, value in one.row.items())
    if one.waiting:
        yield f"not applied yet, and not in it: {', '.join(one.waiting)}"
    if one.other_code:
        yield "other code than this made the live rows, and may have made another one then"
    if one.differs:
        yield "the live row is another one: `projectionist verify` and `recompute` say more"
    if history:
        if one.earlier_states:
            yield f"{one.earlier_states:,} states before these: --limit lists more"
        yield lines(
            [
                {
                    "seq": state.seq,
                    "stored": state.stored,
                    "event": state.event,
                    "type": state.type,
                    "id": state.id,
                    "changed": values_of(state.changed) or "nothing",
                }
                for state in one.states
            ],
            ("seq", "stored", "event", "type", "id", "changed"),
        )
