"""`projectionist status`: what this project runs on, and whether somebody has to do something about it."""

from __future__ import annotations

import argparse
import asyncio
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.ops.help import Topic
from projectionist.ops.terminal import Exit, say, say_json, styled, table
from projectionist.runner.status import ConsumerStatus, Counted, SetbackStatus

if TYPE_CHECKING:
    from projectionist.core.settings import Nats, Postgres, Settings

TOPIC = Topic.LOOK
HELP = "show servers, pending migrations, and where every consumer stands"
EXAMPLE = """
projectionist status              for people
projectionist status --watch      again every second
projectionist status --by type    what has happened, by event type (or: hour)
projectionist status --json       for programs (exit code 3: something needs attention)
"""

SILENT_S = 20.0
"""A process that has not told its heartbeat for so long is not counted as running."""


class Part(msgspec.Struct, frozen=True):
    """One thing this project runs on; `problem` is empty where all is well."""

    name: str
    shown: str
    problem: str = ""


class Status(msgspec.Struct, frozen=True):
    """All of them."""

    version: str
    python: str
    parts: list[Part]
    consumers: list[ConsumerStatus] = []
    counted: list[Counted] = []
    setbacks: list[SetbackStatus] = []

    @property
    def well(self) -> bool:
        """True if nothing needs attention."""
        return not (
            any(part.problem for part in self.parts)
            or any(map(waits_for_somebody, self.consumers))
            or any(one.needs_somebody for one in self.setbacks)
        )


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--by", choices=("type", "hour"), help="what has happened, by event type or hour")
    parser.add_argument("--watch", action="store_true", help="show it again every second, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Show it for the servers of the settings."""
    from projectionist.ops.servers import settings

    found = settings()
    while True:
        status = asyncio.run(look(found, args.by))
        if args.json:
            say_json({"well": status.well, **msgspec.to_builtins(status)})
        else:
            show(status, fresh=args.watch and sys.stdout.isatty())
        if not args.watch:
            return Exit.DONE if status.well else Exit.ATTENTION
        sys.stdout.flush()
        time.sleep(1)


async def look(settings: Settings, by: str | None = None) -> Status:
    """Ask both servers at once; what does not answer is a part with a problem."""
    (parts, consumers, counted, setbacks), broker = await asyncio.gather(
        _database(settings.postgres, by), _broker(settings.nats)
    )
    release, python = version("projectionist"), platform.python_version()
    return Status(release, python, [*parts, broker], consumers, counted, setbacks)


def show(status: Status, *, fresh: bool = False) -> None:
    """Print it for people; `fresh` clears the terminal first."""
    rows = [("projectionist", f"{status.version} on Python {status.python}")]
    rows += [(part.name, styled(part.problem, "bad") or part.shown) for part in status.parts]
    texts = [table(rows)]
    if status.consumers:
        texts.append(consumer_table(status.consumers))
        texts += [pause_line(one) for one in status.consumers if one.pause is not None]
        texts += [breaker_line(one) for one in status.consumers if one.breaker is not None]
        texts += filter(None, ["\n".join(line for one in status.consumers for line in next_steps(one))])
    texts += map(setback_line, status.setbacks)
    if status.counted:
        texts.append(
            table([("consumer", "of", "outcome", "events"), *map(msgspec.structs.astuple, status.counted)])
        )
    say(("\x1b[H\x1b[2J" if fresh else "") + "\n\n".join(texts))


def consumer_table(consumers: Sequence[ConsumerStatus]) -> str:
    """Where every consumer stands, a line each."""
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


def pause_line(one: ConsumerStatus) -> str:
    """Who has paused a consumer, when and why."""
    assert one.pause is not None
    when = one.pause.since.isoformat(timespec="seconds")
    return f"{one.name}: paused by {one.pause.who} at {when}: {one.pause.reason}"


def breaker_line(one: ConsumerStatus) -> str:
    """Why nothing is fetched for a consumer, and what ends that."""
    assert one.breaker is not None
    return (
        f"{one.name}: the breaker is {one.breaker.state.replace('_', ' ')}: {one.breaker.reason}. It closes when some "
        f"keys go through, or by `projectionist breaker reset {one.name} --reason …`"
    )


def setback_line(one: SetbackStatus) -> str:
    """What a process cannot do, why, and what to do about it."""
    return ". ".join(filter(None, [f"{one.consumer or 'all'}: {one.about}: {one.reason}", one.remedy]))


def next_steps(one: ConsumerStatus) -> Iterator[str]:
    """Where to look at what of a consumer waits for somebody."""
    for count, what, command in (
        (one.heads.get("waiting", 0), "waiting for new code or a person", "parked list"),
        (one.quarantined, "in quarantine", "quarantine list"),
        (one.incidents, "incidents open", "incidents list"),
    ):
        if count:
            yield f"{one.name}: {count} {what}: `projectionist {command} --consumer {one.name}`"


def _line(one: ConsumerStatus) -> tuple[object, ...]:
    alive = [runner for runner in one.runners if runner.silent_s < SILENT_S]
    state = "paused" if one.paused else f"{len(alive)} running" if alive else "not running"
    if one.breaker is not None:
        state = f"breaker {one.breaker.state.replace('_', ' ')}"
    timed = [runner for runner in alive if runner.p50_ms is not None]
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


def waits_for_somebody(one: ConsumerStatus) -> bool:
    """Whether something of this consumer does not go on by itself."""
    return bool(one.heads.get("waiting") or one.quarantined or one.incidents or one.breaker)


async def _database(
    postgres: Postgres, by: str | None
) -> tuple[list[Part], list[ConsumerStatus], list[Counted], list[SetbackStatus]]:
    from projectionist.core.db import connect
    from projectionist.migrations import plan
    from projectionist.runner import status

    try:
        connection = await connect(postgres, application_name="projectionist status")
    except ProjectionistError as problem:
        return [Part("postgres", "", str(problem))], [], [], []
    found = Part("postgres", f"{connection.get_settings().server_version} at {postgres.url}")
    try:
        pending = [migration.name for migration in await plan(connection, postgres.schema)]
        parts = [found, _tables(postgres.schema, pending)]
        if pending:
            return parts, [], [], []
        counted = await status.breakdown(connection, postgres.schema, by) if by else []
        consumers = await status.consumers(connection, postgres.schema)
        return parts, consumers, counted, await status.setbacks(connection, postgres.schema)
    except ProjectionistError as problem:
        return [found, Part("migrations", "", str(problem))], [], [], []
    finally:
        await connection.close()


def _tables(schema: str, pending: list[str]) -> Part:
    if not pending:
        return Part("migrations", f"schema {schema} is up to date")
    problem = f"{', '.join(pending)} pending in schema {schema}. Run `projectionist migrate`"
    return Part("migrations", "", problem)


async def _broker(nats: Nats) -> Part:
    from projectionist.core.broker import connect

    try:
        client = await connect(nats, name="projectionist status", within_s=3)
    except ProjectionistError as problem:
        return Part("nats", "", str(problem))
    server = client.connected_server_version
    await client.close()
    return Part("nats", f"{server.major}.{server.minor}.{server.patch} at {', '.join(map(str, nats.url))}")
