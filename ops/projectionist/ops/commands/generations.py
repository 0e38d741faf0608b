"""`projectionist generations`: the physical builds of a read model, and the way back to a kept one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, say, say_json, table

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.ops.cli.command_context import AtWork
    from projectionist.projections.compiled.definition import Definition
    from projectionist.runner.rebuild.open_builds import BuildReport

TOPIC = Topic.HISTORY
HELP = "list the generations of a read model, go back to a kept one, or drop it"
EXAMPLE = """
projectionist generations list shop.app:app OrderSummary
projectionist generations rollback shop.app:app OrderSummary 3   catch it up, then swap; its code must be deployed
projectionist generations drop shop.app:app OrderSummary 3       before its time
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("act", choices=("list", "rollback", "drop"), help="what to do")
    app_arguments.declare(parser, names="the projection, then for rollback and drop the generation")
    app_arguments.declare_act(parser, required=False)
    parser.add_argument("--json", action="store_true", help="end with one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    from projectionist.ops.cli import command_context

    return command_context.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from projectionist.ops.cli.command_context import at_work

    async with at_work(args, consumers=0, command="generations") as work:
        name, *rest = work.names
        if args.act == "list":
            return await _list(args, work, name)
        if len(rest) != 1 or not rest[0].isdigit():
            raise UsageError(
                "the generation is missing", remedy=f"Write `generations {args.act} APP NAME NUMBER`"
            )
        number = int(rest[0])
        if args.act == "drop":
            return await _drop(args, work, name, number)
        return await _rollback(args, work, work.app.view(name), number)


async def _registered(work: AtWork, name: str) -> Record:
    """Return the registration of a view: of the app's, or of one that its set lists no more."""
    from projectionist.runner.rebuild.registration_check import registered

    row = await work.queries.row("select_set_view", name)
    if row is not None and row["state"] == "retired":
        return row
    return await registered(work.queries, work.app.view(name), going_back=True)


async def _list(args: argparse.Namespace, work: AtWork, name: str) -> int:
    from projectionist.runner.read_models.generations import generations
    from projectionist.runner.rebuild.open_builds import open_builds

    row = await _registered(work, name)
    found = await generations(work.queries, row["view"])
    opened = [one for one in await open_builds(work.queries, row["name"]) if one.view == row["view_name"]]
    if args.json:
        say_json({"consumer": row["view_name"], "generations": found, "builds": opened})
        return Exit.DONE
    rows = [("generation", "state", "revision", "created", "kept until", "rollback")]
    rows += [
        (
            *(str(g.generation), g.state, str(g.revision), f"{g.created:%Y-%m-%d %H:%M}"),
            "" if g.kept_until is None else f"{g.kept_until:%Y-%m-%d %H:%M}",
            "yes" if g.can_roll_back else "",
        )
        for g in found
    ]
    say("\n".join([table(rows), *map(_opened, opened)]))
    return Exit.DONE


def _opened(one: BuildReport) -> str:
    far = "" if one.share is None else f" {one.share:.0%}"
    left = "" if one.left_s is None or not one.is_built else f", {one.left_s:.0f} s left"
    does = f"{one.doing}{far}{left}, by {one.owner}" if one.is_built else "nobody builds it: rebuild goes on"
    return f"open: {one.kind} of generation {one.generation}, {one.phase}: {does}"


async def _rollback(args: argparse.Namespace, work: AtWork, definition: Definition, number: int) -> int:
    from projectionist.ops.cli.command_context import progress
    from projectionist.runner.rebuild.rebuild import Options, Rebuild

    watched = progress(definition.name, None)
    options = Options(back_to=number)
    act = app_arguments.act_of(args)
    consumer = work.app.definition(definition.consumer)
    given = (consumer, work.settings, work.client, watched, options)
    back = await Rebuild(*given, views=[definition], act=act).run()
    if args.json:
        say_json({"rolled_back": back})
    else:
        say(f"{definition.full_name}: generation {number} is live again, {back.caught_up:,} events caught up")
    return Exit.DONE


async def _drop(args: argparse.Namespace, work: AtWork, name: str, number: int) -> int:
    from projectionist.runner.read_models.generations import drop

    row = await _registered(work, name)
    act = app_arguments.act_of(args)
    await drop(work.queries, row["view"], number, consumer=row["number"], act=act)
    if args.json:
        say_json({"dropped": number})
    else:
        say(f"{row['view_name']}: generation {number} is dropped")
    return Exit.DONE
