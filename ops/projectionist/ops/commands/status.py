"""`projectionist status`: what this project runs on, and whether a person has to act."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence

import msgspec

from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, say, say_json, styled, table
from projectionist.ops.inspect.project_status import Status, alive, look
from projectionist.outbox.admin.status import OutboxProblem, OutboxStatus, many
from projectionist.runner.consumers.status import ConsumerStatus, SetbackStatus

TOPIC = Topic.LOOK
HELP = "show servers, pending migrations, and the state of every consumer"
EXAMPLE = """
projectionist status              for people
projectionist status --watch      again every second
projectionist status --by type    what has happened, by event type (or: hour, minute)
projectionist status --json       for programs (exit code 3: something needs attention)
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--by",
        choices=("type", "hour", "minute"),
        help="what has happened, by event type, by hour of the last day, or by minute of the last hour",
    )
    parser.add_argument("--watch", action="store_true", help="show it again every second, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Show it for the servers of the settings."""
    from projectionist.ops.cli.find_servers import settings

    found = settings()
    while True:
        status = asyncio.run(look(found, args.by))
        if args.json:
            attention = msgspec.to_builtins(status.troubles)
            say_json({"well": status.well, "attention": attention, **msgspec.to_builtins(status)})
        else:
            show(status, fresh=args.watch and sys.stdout.isatty())
        if not args.watch:
            return Exit.DONE if status.well else Exit.ATTENTION
        sys.stdout.flush()
        time.sleep(1)


def show(status: Status, *, fresh: bool = False) -> None:
    """Print it for people; `fresh` clears the terminal first."""
    rows = [("projectionist", f"{status.version} on Python {status.python}")]
    rows += [(part.name, styled(part.problem, "bad") or part.shown) for part in status.parts]
    texts = [table(rows)]
    if status.consumers:
        texts.append(consumer_table(status.consumers))
    texts += filter(None, [outbox_tables(status.outbox), "\n".join(map(trouble_line, status.troubles))])
    texts += map(setback_line, status.setbacks)
    texts += filter(None, map(view_lines, status.consumers))
    if status.counted:
        texts.append(
            table([("consumer", "of", "outcome", "events"), *map(msgspec.structs.astuple, status.counted)])
        )
    say(("\x1b[H\x1b[2J" if fresh else "") + "\n\n".join(texts))


def consumer_table(consumers: Sequence[ConsumerStatus]) -> str:
    """Draw where every consumer stands, a line each."""
    head = (
        "consumer",
        "state",
        "lag",
        "backlog",
        "applied",
        "parked",
        "oldest",
        "quarantined",
        "incidents",
        "p50/p99 ms",
    )
    return table([head, *(_line(one) for one in consumers)])


def setback_line(one: SetbackStatus) -> str:
    """Say what a process cannot do, why, and what to do about it."""
    return ". ".join(filter(None, [f"{one.consumer or 'all'}: {one.about}: {one.reason}", one.remedy]))


def view_lines(one: ConsumerStatus) -> str:
    """Say of each view that is to join what becomes of it."""
    return "\n".join(f"{one.name}.{view.name} {step}" for view in one.views if (step := view.next_step))


def trouble_line(one: OutboxProblem) -> str:
    """Say what does not go on by itself, and the next step."""
    return f"{one.about}: {one.text}. {one.remedy}"


def outbox_tables(outbox: OutboxStatus) -> str:
    """Draw what stands in the outbox, and which relays work; nothing where there is neither."""
    providers = [("provider", "waiting", "dead", "reconcile", "held", "oldest", "circuits", "relays")]
    for one in outbox.providers:
        counts = [many(n, bounded=outbox.bounded) for n in (one.waiting, one.dead, one.reconcile, one.held)]
        oldest = "-" if one.oldest_s is None else f"{one.oldest_s:.0f} s"
        circuits = ", ".join(f"{count} {why}" for why, count in sorted(one.circuits.items())) or "-"
        providers.append(
            (one.name, counts[0], counts[1], counts[2], counts[3], oldest, circuits, str(one.relays))
        )
    relays = [("relay", "of", "since", "beat")]
    for relay in outbox.relays:
        since = relay.started.isoformat(timespec="seconds")
        names = ", ".join(relay.providers)
        relays.append((f"{relay.host}:{relay.pid}", names, since, f"{relay.silent_s:.0f} s ago"))
    tables: list[Sequence[Sequence[object]]] = [providers, relays]
    return "\n\n".join(table(rows) for rows in tables if len(rows) > 1)


def _line(one: ConsumerStatus) -> tuple[object, ...]:
    running = alive(one)
    state = "paused" if one.paused else f"{len(running)} running" if running else "not running"
    if one.breaker is not None:
        state = f"breaker {one.breaker.state.replace('_', ' ')}"
    timed = [runner for runner in running if runner.p50_ms is not None]
    pace = (
        "/".join(f"{max(getattr(r, name) for r in timed):.1f}" for name in ("p50_ms", "p99_ms"))
        if timed
        else "-"
    )
    lag = "?" if one.lag is None else one.lag
    oldest = "-" if one.oldest_s is None else f"{one.oldest_s:.0f} s"
    applied = one.outcomes.get("applied", 0)
    return (
        one.name,
        state,
        lag,
        one.backlog,
        applied,
        one.parked,
        oldest,
        one.quarantined,
        one.incidents,
        pace,
    )
