"""`projectionist preview`: what would the code at hand make of the live rows?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.content import leave_texts_out
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, say, say_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from projectionist.runner.history.handler_failures import HandlerFailure
    from projectionist.runner.preview.check_result import StreamCheck
    from projectionist.runner.preview.live_rows import ColumnChanges
    from projectionist.runner.preview.preview_result import HeadPreview, PreviewResult, RowChange

TOPIC = Topic.HISTORY
HELP = "show what the code at hand would make of live rows, before it runs; changes nothing"
EXAMPLE = """
projectionist preview shop.app:app                                 every projection of the app, a thousand rows each
projectionist preview shop.app:app OrderSummary --sample 20000
projectionist preview shop.app:app OrderSummary --aggregate order/o-17 --reveal --reason "ticket 7"
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser, names="the projections (default: all)")
    parser.add_argument(
        "--sample", type=app_arguments.whole, default=1000, metavar="N", help="so many rows by chance (1000)"
    )
    parser.add_argument("--aggregate", metavar="TYPE/ID", help="the rows of this aggregate alone")
    parser.add_argument("--throttle", type=float, metavar="N", help="read at most N events a second")
    app_arguments.declare_reveal(parser, "values of rows, texts of errors")
    app_arguments.declare_act(parser, required=False)
    parser.add_argument("--json", action="store_true", help="end with one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it, one consumer after the other."""
    from projectionist.core.aggregates import parted
    from projectionist.ops.cli import command_context

    if args.aggregate is not None:
        parted(args.aggregate)
    if args.sample < 1:
        raise UsageError("--sample is at least one")
    app_arguments.check_reveal(args)
    return command_context.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from projectionist.core.operator import Act
    from projectionist.ops.cli.command_context import at_work, long_act, progress
    from projectionist.ops.cli.reveal import record_reveal
    from projectionist.runner.preview.preview import Previewer

    found = []
    async with at_work(args, command="preview", unnamed=True, read_only=True) as work:
        if args.reveal:
            names = [one.name for one in work.definitions]
            await record_reveal(work.settings, "preview", names, "preview", Act(args.actor, args.reason))
        for definition in work.definitions:
            watched = progress(definition.name, args.throttle, what="preview")
            rows = {"sample": args.sample} if args.aggregate is None else {"aggregate": args.aggregate}
            about = {"consumer": definition.full_name} | rows
            async with long_act(args, work, "preview", about, watched) as told:
                given = (work.queries, definition, work.settings, work.client, told)
                found.append(await Previewer(*given, reveal=args.reveal).run(args.sample, args.aggregate))
    for one in found:
        if one.check is not None and not args.reveal:
            leave_texts_out(one.check)
    if args.json:
        say_json({"previews": found})
    else:
        say("\n".join(line for one in found for line in _shown(one)))
    return Exit.ATTENTION if any(one.differs for one in found) else Exit.DONE


def _shown(one: PreviewResult) -> Iterator[str]:
    if one.left_out is not None:
        yield f"{one.consumer}: {one.left_out}"
    elif one.check is not None:
        yield from _new_view(one.consumer, one.check)
    else:
        yield from _compared(one)
        yield from _failed(one)
        yield from (f"  asked for, and not made: {n:,} x {slot}" for slot, n in one.intents.items())


def _new_view(name: str, check: StreamCheck) -> Iterator[str]:
    (made,) = check.consumers
    rows = 0 if made.fold is None else made.fold.rows
    yield f"{name}: not there yet; it would make {rows:,} rows of {made.messages:,} messages"
    if made.troubled:
        yield f"  and fail on {made.troubled:,}: `projectionist events check --fold` lists them"


def _compared(one: PreviewResult) -> Iterator[str]:
    yield (
        f"{one.consumer}: {one.rows:,} rows of generation {one.generation} compared, {one.differ:,} would differ; "
        f"{one.events:,} events folded"
    )
    if one.runs:
        yield "  this is the code that runs"
    if one.older_rows:
        yield "  live rows are by older code than what runs, in part: what differs is not this change's alone"
    if one.columns:
        yield from _columns(one.columns)
    if one.looked_up:
        yield f"  {one.looked_up:,} of these look up tables as they are now, which may be all of the difference"
    if one.by_column:
        yield f"  by column: {', '.join(f'{name} in {n:,}' for name, n in sorted(one.by_column.items()))}"
    if one.only_live or one.only_new:
        yield f"  {one.only_live:,} rows would go, {one.only_new:,} would come"
    yield from (f"    {_change(change)}" for change in one.changes)
    if one.undecidable:
        yield f"  {one.undecidable:,} rows cannot be told: the stream no longer holds all of their events"
        yield from (f"    {row.key}: {row.lost}" for row in one.undecidable_rows)


def _failed(one: PreviewResult) -> Iterator[str]:
    if one.failed:
        yield f"  this code fails on {one.failed:,} events that live has applied; {one.unfinished:,} rows not compared"
        yield from (f"    {_failure(failure)}" for failure in one.failures)
    if one.failed_heads:
        heads = f"{len(one.heads):,} of {one.failed_heads:,}"
        yield f"  {heads} events that failed live were tried: {one.mended:,} would go through"
        yield from (f"    {_head(head)}" for head in one.heads)


def _columns(changes: ColumnChanges) -> Iterator[str]:
    for what, names in (("new", changes.new), ("gone", changes.gone), ("of another type", changes.retyped)):
        if names:
            yield f"  columns {what}, not compared: {', '.join(names)}"
    if changes.other_key:
        yield "  rows have another key: none can be compared, and a rebuild makes them anew"


def _change(one: RowChange) -> str:
    if one.side != "both":
        return f"{one.key}: {'would go' if one.side == 'live' else 'would come'}"
    if one.live is None or one.new is None:
        return f"{one.key}: {', '.join(one.columns)}"
    pairs = ", ".join(f"{name} {one.live[name]!r} -> {one.new[name]!r}" for name in one.columns)
    return f"{one.key}: {pairs}"


def _failure(one: HandlerFailure) -> str:
    where = f"{one.aggregate} v{one.version}" if one.aggregate else "an event"
    return f"{where} (sequence {one.seq}, {one.type}): {one.text}"


def _head(one: HeadPreview) -> str:
    where = one.aggregate or f"sequence {one.seq}"
    verdict = {True: "goes through", False: "still fails", None: "cannot be told"}[one.mended]
    return f"{where} {one.type} (sequence {one.seq}): {verdict}" + (f": {one.now}" if one.now else "")
