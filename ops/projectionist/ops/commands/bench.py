"""`projectionist bench`: how fast it is here, beside a twin, the bare transport and a peer."""

from __future__ import annotations

import argparse
import asyncio
import signal
from typing import TYPE_CHECKING

from projectionist.ops.terminal import Exit, note, say, say_json

if TYPE_CHECKING:
    from projectionist.core.settings import Settings
    from projectionist.ops.embedded import Embedded

HELP = "measure how fast it is on this machine, beside a twin, the bare transport and a peer"
EXAMPLE = """
projectionist bench live                         a table, ratios first; a few minutes
projectionist bench live --events 20000 --json   fewer events, for a program to read
projectionist bench live --sync always           NATS syncs every message to disk
projectionist bench rebuild                      from stream to verified swap, 1,000,000 events
projectionist bench relay --json                 intents to a stream, beside a twin and pgqueuer
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("what", choices=["live", "rebuild", "relay"], help="what to measure")
    parser.add_argument(
        "--events",
        type=_count,
        metavar="N",
        help="events, or intents; default: 200,000, rebuild: 1,000,000, relay: 50,000",
    )
    parser.add_argument("--aggregates", type=_count, metavar="N", help="default: 20,000, rebuild: 100,000")
    parser.add_argument(
        "--payload", type=_count, default=300, metavar="BYTES", help="of each body; default: 300"
    )
    parser.add_argument("--repeats", type=_count, default=3, metavar="N", help="rounds; default: 3")
    parser.add_argument(
        "--random-ids", action="store_true", help="ids in no order, instead of time-ordered ones"
    )
    parser.add_argument(
        "--inbox-rows",
        type=_count,
        default=0,
        metavar="N",
        help="the product once more, on an inbox of N rows",
    )
    parser.add_argument(
        "--variants", action="store_true", help="live: the product under what else users ask of it, too"
    )
    parser.add_argument(
        "--sync", choices=["default", "always"], default="default", help="when NATS syncs to disk"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Measure on the servers of the settings, or, where they name none, on servers started for this alone."""
    from projectionist.ops.bench.ground import servers

    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # end in order: there are servers and tables to remove
    with servers(sync_always=args.sync == "always") as (settings, embedded):
        return asyncio.run(_run(args, settings, embedded))


async def _run(args: argparse.Namespace, settings: Settings, embedded: Embedded | None) -> int:
    from projectionist.ops.bench import report
    from projectionist.ops.bench.ground import ground
    from projectionist.ops.bench.live import live, varied
    from projectionist.ops.bench.load import Load

    if args.what == "relay":
        return await _relay(args, settings, embedded)
    if args.what == "rebuild":
        return await _rebuild(args, settings, embedded)
    load = Load(
        events=args.events or 200_000,
        aggregates=args.aggregates or 20_000,
        payload=args.payload,
        random_ids=args.random_ids,
    )
    async with ground(settings, embedded) as made:
        about = await report.about(made, "given" if embedded is None else "embedded", args.sync)
        measured = await live(made, load, args.repeats, args.inbox_rows, note)
    if args.variants:
        measured.varied = await varied(settings, embedded, load, args.repeats, note)
    if args.json:
        say_json(report.document(measured, load, args.repeats, about))
    else:
        say(report.text(measured, load, about))
    return Exit.DONE


async def _relay(args: argparse.Namespace, settings: Settings, embedded: Embedded | None) -> int:
    from projectionist.ops.bench import relay, report
    from projectionist.ops.bench.ground import ground

    backlog = relay.Backlog(
        intents=args.events or 50_000, aggregates=args.aggregates or 20_000, payload=args.payload
    )
    async with ground(settings, embedded) as made:
        about = await report.about(made, "given" if embedded is None else "embedded", args.sync)
        measured = await relay.relay(made, backlog, args.repeats, note)
    if args.json:
        say_json(relay.document(measured, backlog, args.repeats, about))
    else:
        say(relay.text(measured, backlog, about))
    return Exit.DONE


async def _rebuild(args: argparse.Namespace, settings: Settings, embedded: Embedded | None) -> int:
    from projectionist.ops.bench import rebuild, report
    from projectionist.ops.bench.ground import ground
    from projectionist.ops.bench.load import Load

    load = Load(
        events=args.events or 1_000_000,
        aggregates=args.aggregates or 100_000,
        payload=args.payload,
        random_ids=args.random_ids,
    )
    async with ground(settings, embedded) as made:
        about = await report.about(made, "given" if embedded is None else "embedded", args.sync)
        measured = await rebuild.rebuild(made, load, args.repeats, note)
    if args.json:
        say_json(rebuild.document(measured, load, args.repeats, about))
    else:
        say(rebuild.text(measured, load, about))
    return Exit.DONE


def _count(text: str) -> int:
    number = int(text.replace(",", "").replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number
