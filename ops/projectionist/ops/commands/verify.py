"""`projectionist verify`: are the live rows what their events make?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.content import reveal, values_of, without_values
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, note, say, say_json

if TYPE_CHECKING:
    from projectionist.ops.cli.command_context import AtWork
    from projectionist.projections.compiled.definition import Definition
    from projectionist.runner.verify.verify import Verified

TOPIC = Topic.HISTORY
HELP = "compare the live rows with what their events make, on the live system; changes nothing"
EXAMPLE = """
projectionist verify shop.app:app OrderSummary                a hundred rows by chance
projectionist verify shop.app:app OrderSummary --sample 5000
projectionist verify shop.app:app OrderSummary --all          every row, and rows that lack
projectionist verify shop.app:app OrderSummary --reveal --reason "ticket 7"   with the values that differ
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser, names="the projections")
    much = parser.add_mutually_exclusive_group()
    much.add_argument(
        "--sample", type=app_arguments.whole, default=100, metavar="N", help="so many rows by chance (100)"
    )
    much.add_argument("--all", action="store_true", help="every row")
    parser.add_argument("--throttle", type=float, metavar="N", help="read at most N events a second")
    app_arguments.declare_reveal(parser, "the values that differ")
    app_arguments.declare_act(parser, required=False)
    parser.add_argument("--json", action="store_true", help="end with one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    from projectionist.ops.cli import command_context

    app_arguments.check_reveal(args)
    return command_context.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from projectionist.ops.cli.command_context import at_work, long_act, progress
    from projectionist.runner.verify.verify import Verifier

    async with at_work(args, command="verify") as work:
        await work.connection.execute("set statement_timeout = 0")
        found = []
        for definition in await _with_rows(work):
            watched = progress(definition.name, args.throttle, what="verify")
            async with long_act(args, work, "verify", {"consumer": definition.full_name}, watched) as told:
                verifier = Verifier(work.queries, definition, work.settings, work.client, told)
                found.append(await verifier.run(None if args.all else args.sample))
        if args.reveal:
            rows = (f"{one.consumer}: row {each.key}" for one in found for each in one.drifts)
            await reveal(work.connection, work.settings.postgres.schema, rows, args)
        else:
            for one in found:
                one.drifts = [without_values(each) for each in one.drifts]
    if args.json:
        say_json({"verified": found})
    else:
        say("\n".join(map(_summary, found)))
    return Exit.ATTENTION if any(one.drifted or one.unsure or one.undecidable for one in found) else Exit.DONE


async def _with_rows(work: AtWork) -> list[Definition]:
    """Return the views that are named, and of sets that are named those with rows that batches write."""
    from projectionist.runner.rebuild.registration_check import views_to_build

    found: list[Definition] = []
    for definition, named in work.builds.items():
        chosen = await views_to_build(work.queries, definition, named)
        found += [view for view, row in chosen if named is not None or row["state"] == "live"]
        for row in await work.queries.rows("select_consumer_views", definition.name):
            if named is None and row["state"] in ("joining", "detached"):
                note(f"{definition.name}.{row['view_name']}: is {row['state']}, and is not verified")
    return found


def _summary(one: Verified) -> str:
    lines = [
        f"{one.consumer}: generation {one.generation}, {one.rows:,} rows compared, {one.drifted:,} differ"
        + (f", {one.undecidable:,} cannot be decided" if one.undecidable else "")
    ]
    if one.unsure:
        lines.append(f"  {one.unsure:,} more differed at first sight, and were not looked at again")
    if one.drifted and one.other_code:
        lines.append("  other code than this made the live rows: a rebuild brings them up to it")
    for each in one.drifts[:20]:
        since = f", from {each.since} on" if each.since else ""
        lines.append(
            f"  {each.key}{since}: live {values_of(each.live)}, by its events {values_of(each.folded)}"
        )
    if one.not_judged:
        shown = ", ".join(one.not_judged_keys[:20])
        lines.append(
            f"  {one.not_judged:,} more differ and are not judged, since their handlers look up tables that others "
            f"change: {shown}"
        )
    lines += [
        f"  {row.key}: the stream no longer holds {row.lost}; what is left does not make the row"
        for row in one.undecidable_rows[:20]
    ]
    return "\n".join(lines)
