"""`projectionist rebuild`: a new generation of a read model from the stream, beside the live one."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.content import reveal, without_row
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, say, say_json, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from projectionist.ops.cli.command_context import AtWork
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition
    from projectionist.runner.rebuild.compare import Compared
    from projectionist.runner.rebuild.plan import Plan
    from projectionist.runner.rebuild.rebuild import Rebuilt

TOPIC = Topic.HISTORY
HELP = "build a read model again from the stream while the old one serves, then swap"
EXAMPLE = """
projectionist rebuild shop.app:app OrderSummary           build, compare, swap; after a crash: go on
projectionist rebuild shop.app:app OrderSummary --plan    what it would do and cost; changes nothing
projectionist rebuild shop.app:app OrderSummary --abort   give up the build that is open
projectionist rebuild shop.app:app Shop                   all views of a set: one reading, one swap
projectionist rebuild shop.app:app Shop.OrderLines        one of them, beside the others; or one that joins
projectionist rebuild shop.app:app OrderSummary --reveal --reason "ticket 7"   and what handlers raise, what differs
"""

GOES_ON = (
    "what was live is live. The same command goes on where it stood, with --abort it gives up what is built"
)
SHOWN = 10
"""So many differing rows are shown."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser, names="the projections, sets, and views of sets")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--plan", action="store_true", help="show events, time, space; change nothing")
    instead.add_argument("--abort", action="store_true", help="give up the open build and drop its tables")
    instead.add_argument(
        "--restart", action="store_true", help="begin anew instead of going on with an open build"
    )
    parser.add_argument(
        "--partial", action="store_true", help="go on without aggregates whose history is gone"
    )
    parser.add_argument(
        "--accept-differences",
        action="store_true",
        help="swap although the same code makes other rows than the live ones",
    )
    parser.add_argument(
        "--slow-live",
        action="store_true",
        help="keep live batches waiting now and then, should they be as fast as the rebuild catches up",
    )
    parser.add_argument("--throttle", type=float, metavar="N", help="read at most N events a second")
    app_arguments.declare_reveal(parser, "texts that handlers raise, values that differ")
    app_arguments.declare_act(parser, required=False)
    parser.add_argument("--json", action="store_true", help="end with one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it, one projection after the other."""
    from projectionist.ops.cli import command_context

    app_arguments.check_reveal(args)
    return command_context.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from projectionist.ops.cli.command_context import at_work

    async with at_work(args, command="rebuild") as work:
        if args.plan:
            return await _plan(args, work)
        if args.abort:
            return await _abort(args, work)
        rebuilt = []
        for build in work.builds.items():
            rebuilt.append(await _rebuild(args, work, *build))
            if _is_interrupted():  # in the swap, which was done by then
                break
    if args.json:
        say_json({"rebuilt": rebuilt})
    else:
        say("\n".join(_summary(one, values=args.reveal) for one in rebuilt))
    if left := [one.name for one in list(work.builds)[len(rebuilt) :]]:
        warn(f"interrupted: not rebuilt: {', '.join(left)}")
        return Exit.ATTENTION
    compared = [view.compared for one in rebuilt for view in one.views]
    differs = any(one.differences and not one.expected for one in compared)
    return Exit.ATTENTION if differs else Exit.DONE


def _is_interrupted() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _rebuild(
    args: argparse.Namespace,
    work: AtWork,
    definition: ConsumerDefinition,
    views: tuple[Definition, ...] | None,
) -> Rebuilt:
    from projectionist.runner.rebuild.rebuild import Options, Rebuild

    options = Options(
        restart=args.restart,
        partial=args.partial,
        accept_differences=args.accept_differences,
        slow_live=args.slow_live,
    )
    from projectionist.ops.cli.command_context import long_act, progress
    from projectionist.runner.history.handler_failures import HandlersFailed
    from projectionist.runner.rebuild.compare import Differs

    watched, done = progress(definition.name, args.throttle), None
    about = ", ".join(view.full_name for view in views) if views else definition.name
    try:
        act = app_arguments.act_of(args)
        async with long_act(args, work, "rebuild", {"consumer": about}, watched) as told:
            given = (definition, work.settings, work.client, told, options)
            done = await Rebuild(*given, views=views, act=act).run()
    except asyncio.CancelledError:
        if done is None:
            warn(f"{about}: interrupted, and not swapped: {GOES_ON}")
            raise
    except HandlersFailed as failed:
        if args.reveal:
            await _reveal(args, work, definition)
            for one in failed.stumbles:
                watched.say(f"sequence {one.seq}: {one.text}")
        raise
    except Differs as differs:
        if args.reveal:
            await _reveal(args, work, definition)
        for each in differs.compared.differences[:SHOWN]:
            watched.say(each.told(values=args.reveal))
        raise
    await _reveal_or_mask(args, work, definition, done)
    return done


async def _reveal_or_mask(
    args: argparse.Namespace, work: AtWork, definition: ConsumerDefinition, done: Rebuilt
) -> None:
    if args.reveal:
        await _reveal(args, work, definition)
        return
    for view in done.views:
        view.compared.differences = [without_row(each) for each in view.compared.differences]


async def _reveal(args: argparse.Namespace, work: AtWork, definition: ConsumerDefinition) -> None:
    await reveal(work.connection, work.settings.postgres.schema, [f"{definition.name}: rebuild"], args)


async def _plan(args: argparse.Namespace, work: AtWork) -> int:
    from projectionist.runner.rebuild.plan import plan

    plans = [
        await plan(work.queries, definition, work.settings, work.client, views)
        for definition, views in work.builds.items()
    ]
    if args.json:
        say_json({"plans": plans})
    else:
        say("\n\n".join(map(_shown, plans)))
    return Exit.ATTENTION if any(plan.refused for plan in plans) else Exit.DONE


async def _abort(args: argparse.Namespace, work: AtWork) -> int:
    from projectionist.runner.rebuild.rebuild import give_up

    act = app_arguments.act_of(args)
    ended = {d.name: await give_up(d, work.settings, act) for d in work.builds}
    if args.json:
        say_json({"aborted": ended})
    else:
        for name, generations in ended.items():
            said = [f"{view}: gave up generation {generation}" for view, generation in generations.items()]
            say("\n".join(said) or f"{name}: no build is open")
    return Exit.DONE


def _summary(one: Rebuilt, *, values: bool) -> str:
    again = ", gone on with" if one.resumed else ""
    made = ", ".join(_named(one.consumer, view.view, view.generation) for view in one.views)
    rows = sum(view.compared.rows for view in one.views)
    done = f"{one.events:,} events, {rows:,} rows, {one.caught_up:,} caught up, {one.seconds:.1f} s"
    are = "is" if len(one.views) == 1 else "are"
    lines = [f"{one.consumer}: {made} {are} live{again}: {done}"]
    lines += [f"  not sent, as history makes no effects: {n:,} x {slot}" for slot, n in one.silent.items()]
    return "\n".join(
        [*lines, *(line for view in one.views for line in _compared(view.compared, values=values))]
    )


def _named(consumer: str, view: str, generation: int) -> str:
    """Return a generation as it is told: of a set, with its view."""
    return f"generation {generation}" if view == consumer else f"generation {generation} of {view}"


def _compared(compared: Compared, *, values: bool) -> Iterator[str]:
    if compared.differences:
        expected = " (expected: other code made the live rows)" if compared.expected else ""
        more = "more than " if compared.more else ""
        yield f"  {more}{len(compared.differences)} rows differ from before{expected}:"
        yield from (f"    {difference.told(values=values)}" for difference in compared.differences[:SHOWN])
    if compared.left_out:
        yield f"  not compared, as only one side has them: {', '.join(compared.left_out)}"


def _shown(one: Plan) -> str:
    eta = f"about {one.eta_s:.0f} s at {one.rate:,.0f}/s" if one.rate else "speed not known"
    made = ", ".join(_named(one.consumer, view.view, view.generation) for view in one.views)
    lines = [
        f"{one.consumer}: {made} from {one.events:,} events, {eta}",
        f"  disk     {one.disk_bytes / 1e6:,.0f} MB beside the live generation, until that is dropped",
        f"  locks    {one.locks}",
        f"  effects  {one.effects}; what handlers ask for is counted and not sent",
        f"  {one.aggregates:,} aggregates, {one.held:,} of them held up and left so",
    ]
    if one.kept:
        lines.append(
            f"  kept     {one.kept} older generations, {one.kept_bytes / 1e6:,.0f} MB: `generations drop` frees them"
        )
    lines += [
        f"  joins    {view.view}: batches write it from the swap on" for view in one.views if view.joins
    ]
    lines += [f"  {one.decisions:,} decisions are repeated"] if one.decisions else []
    lines += [f"  change   {change}" for change in one.changes]
    lines += [f"  depends on the view: {name}" for name in one.dependents]
    lines += [f"  open     {one.open_build}"] if one.open_build else []
    lines += [f"  REFUSED  {one.refused}"] if one.refused else []
    return "\n".join(lines)
