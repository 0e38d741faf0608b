"""`projectionist bench`: how fast it is here, beside twins, the bare transport and peers."""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, note, say, say_json

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings
    from projectionist.ops.embedded import Embedded

TOPIC = Topic.DEVELOP
HELP = "measure how fast it is on this machine, beside twins, the bare transport and peers"
EXAMPLE = """
projectionist bench live                         a table, ratios first; a few minutes
projectionist bench live --events 20000 --json   fewer events, for a program to read
projectionist bench live --variants              intents, gaps, duplicates, tracing… as well
projectionist bench rebuild                      from stream to verified swap, 1,000,000 events
projectionist bench relay --json                 intents to a stream, beside a twin and pgqueuer
projectionist bench latency                      publish to visible, publish to provider called
projectionist bench size --plot size.svg         what grows, and what that costs; may take an hour
projectionist bench all --json                   all but size and compare, in less than 15 minutes
projectionist bench compare v0.1 HEAD            two revisions of this checkout, by turns: what differs
"""
WHAT = ("live", "rebuild", "relay", "latency", "size", "compare", "all")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add("what", choices=WHAT, help="what to measure")
    add(
        "revisions",
        nargs="*",
        metavar="REVISION",
        help="compare: the old one and the new one, as git names them",
    )
    events = "events, or intents; default: 200,000, rebuild: 1,000,000, relay: 50,000, size: 100,000"
    add("--events", type=_count, metavar="N", help=events)
    add("--aggregates", type=_count, metavar="N", help="default: 20,000, rebuild: 100,000")
    add("--payload", type=_count, default=300, metavar="BYTES", help="of each body; default: 300")
    add("--repeats", type=_count, metavar="N", help="rounds; default: 3, compare: 6")
    add("--random-ids", action="store_true", help="ids in no order, instead of time-ordered ones")
    rows = (
        "live: the product on an inbox of N rows too, at rest and while retention removes them; "
        "size: the largest inbox, default: 10,000,000"
    )
    add("--inbox-rows", type=_count, default=0, metavar="N", help=rows)
    add("--variants", action="store_true", help="live: the product under what else users ask of it, too")
    add("--sync", choices=["default", "always"], default="default", help="when NATS syncs to disk")
    add("--plot", type=Path, metavar="FILE", help="size: draw the curves into this SVG file")
    add("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Measure on the servers of the settings, or, where they name none, on servers started for this alone."""
    from projectionist.bench.ground import servers

    if (args.what == "compare") != bool(args.revisions) or len(args.revisions) not in (0, 2):
        raise UsageError("`bench compare` takes two revisions, and no other benchmark takes any")
    # To end in order: there are servers and tables to remove.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with servers(sync_always=args.sync == "always") as (settings, embedded):
        return asyncio.run(_run(args, settings, embedded))


async def _run(args: argparse.Namespace, settings: Settings, embedded: Embedded | None) -> int:
    from projectionist.bench.compare import ROUNDS
    from projectionist.bench.ground import ground
    from projectionist.bench.report import about
    from projectionist.bench.suite import Asked, suite

    asked = Asked(
        events=args.events,
        aggregates=args.aggregates,
        payload=args.payload,
        repeats=args.repeats or (ROUNDS if args.what == "compare" else Asked.repeats),
        random_ids=args.random_ids,
        inbox_rows=args.inbox_rows,
        variants=args.variants,
        revisions=tuple(args.revisions),
    )
    async with ground(settings) as made:
        facts = await about(made, "given" if embedded is None else "embedded", args.sync)
    report = await suite(args.what, asked, settings, embedded, note)
    if args.plot is not None and report.plot:
        args.plot.write_text(report.plot, "utf-8")
        note(f"drawn into {args.plot}")
    if args.json:
        say_json(report.document | facts | {"settings": report.settings | facts["settings"]})
    else:
        say(report.text)
        say("\n".join(f"{part}: {', '.join(f'{k} {v}' for k, v in facts[part].items())}" for part in facts))
    return Exit.DONE


def _count(text: str) -> int:
    number = int(text.replace(",", "").replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number
