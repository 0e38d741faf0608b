"""`projectionist generations`: the physical builds of a read model, and the way back to a kept one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, say, say_json, table

if TYPE_CHECKING:
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

    async with at_work(args, consumers=1, command="generations") as work:
        definition = work.definitions[0]
        if args.act == "list":
            return await _list(args, work, definition)
        if len(work.names) != 1 or not work.names[0].isdigit():
            raise UsageError(
                "the generation is missing", remedy=f"Write `generations {args.act} APP NAME NUMBER`"
            )
        number = int(work.names[0])
        return await (_rollback if args.act == "rollback" else _drop)(args, work, definition, number)


async def _list(args: argparse.Namespace, work: AtWork, definition: Definition) -> int:
    from projectionist.runner.read_models.generations import generations
    from projectionist.runner.rebuild.open_builds import open_builds
    from projectionist.runner.rebuild.registration_check import registered

    row = await registered(work.queries, definition, going_back=True)
    found = await generations(work.queries, row["view"])
    opened = await open_builds(work.queries, definition.name)
    if args.json:
        say_json({"consumer": definition.name, "generations": found, "builds": opened})
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
    back = await Rebuild(definition, work.settings, work.client, watched, options, act=act).run()
    if args.json:
        say_json({"rolled_back": back})
    else:
        say(f"{back.consumer}: generation {number} is live again, {back.caught_up:,} events caught up")
    return Exit.DONE


async def _drop(args: argparse.Namespace, work: AtWork, definition: Definition, number: int) -> int:
    from projectionist.runner.read_models.generations import drop
    from projectionist.runner.rebuild.registration_check import registered

    row = await registered(work.queries, definition, going_back=True)
    act = app_arguments.act_of(args)
    await drop(work.queries, row["view"], number, consumer=row["number"], act=act)
    if args.json:
        say_json({"dropped": number})
    else:
        say(f"{definition.name}: generation {number} is dropped")
    return Exit.DONE
