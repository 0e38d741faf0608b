"""Gives commands that work on consumers the app's classes, the database, the broker, and a bar to watch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core import clock
from projectionist.core.log_format import configure
from projectionist.core.nats import connections
from projectionist.core.operator import Act
from projectionist.core.telemetry import instruments, metrics, names
from projectionist.core.telemetry.otel_setup import exporting
from projectionist.ops.cli import app_arguments, event_loop
from projectionist.ops.cli.database import database
from projectionist.ops.cli.find_servers import settings
from projectionist.ops.cli.output import UsageError, is_quiet, log_level, note
from projectionist.runner.app import App
from projectionist.runner.database.queries import Queries
from projectionist.runner.history.progress import LateProgress, Logged, PhaseProgress, Watched
from projectionist.runner.operations import long_act as operations
from projectionist.runner.operations.operation import BRIEF_S, OperationKind
from projectionist.runner.rebuild.build_lease import owner

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Settings, Telemetry
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition
    from projectionist.runner.history.progress import Progress

NOBODY, NO_REASON = "unknown", "no reason given"


@dataclass(frozen=True)
class AtWork:
    """Open connections, and the consumers the arguments name."""

    settings: Settings
    app: App
    definitions: tuple[Definition, ...]
    builds: Mapping[ConsumerDefinition, tuple[Definition, ...] | None]
    """The same by consumer: those of its views that are named, None for all of them."""
    names: tuple[str, ...]
    """What stood behind the consumers' names, for commands that take more."""
    connection: Connection
    client: Client

    @property
    def queries(self) -> Queries:
        """Return the statements of rebuilding on the connection."""
        return Queries(self.connection, self.settings.postgres.schema)


def run(main: Coroutine[Any, Any, int]) -> int:
    """Run a command's coroutine to its end."""
    configure(log_level())
    return event_loop.run(main)


@asynccontextmanager
async def at_work(
    args: argparse.Namespace,
    *,
    consumers: int | None = None,
    command: str,
    unnamed: bool = False,
    read_only: bool = False,
) -> AsyncIterator[AtWork]:
    """Load the app, check that the database is of this release, connect.

    `consumers` says how many of the names are consumers, each of one view; None: all, sets as well.
    `unnamed`: without a name all are meant.
    `read_only`: the database refuses whatever this command would write, and takes as long as it needs.
    """
    found = settings()
    app, names = app_arguments.split(args, found.app, consumers=consumers)
    if not names and not unnamed:
        raise UsageError("no consumer is named", remedy=f"Write `projectionist {command} APP NAME`")
    loaded = app_arguments.load(app, App)
    meant = names if consumers is None else names[:consumers]
    chosen = loaded.chosen_views(meant) if consumers is None else tuple(map(loaded.view, meant))
    with exporting(_traces_alone(found.telemetry), f"projectionist-{command}"):
        async with database(command, found) as opened:
            if read_only:
                await opened.connection.execute(
                    "set default_transaction_read_only = on; set statement_timeout = 0"
                )
            client = await connections.connect(found.nats, name=f"projectionist {command}")
            try:
                rest = () if consumers is None else tuple(names[consumers:])
                yield AtWork(
                    settings=found,
                    app=loaded,
                    definitions=chosen,
                    builds=loaded.by_consumer(meant),
                    names=rest,
                    connection=opened.connection,
                    client=client,
                )
            finally:
                await client.close()


def _traces_alone(telemetry: Telemetry) -> Telemetry:
    """Export traces alone: a command is over before Prometheus could ask; to an endpoint its metrics go as well."""
    return msgspec.structs.replace(telemetry, exporter="none")


def progress(name: str, limit: float | None, *, what: str | None = None) -> Progress:
    """Return a bar on a terminal, log lines elsewhere; and metrics, if `what` is done is told by no builder's own."""
    drawn = sys.stderr.isatty() and not is_quiet()
    shown: Progress = ProgressBar(name, limit) if drawn else Logged(name, limit)
    if what is None:
        return shown
    watched = Watched(shown)

    def about(value: int) -> metrics.Shown:
        return [(value, {names.CONSUMER: name, names.WHAT: what, names.PHASE: watched.phase})]

    metrics.ask(instruments.READING_DONE, lambda: about(watched.done))
    metrics.ask(instruments.READING_EXPECTED, lambda: about(watched.total))
    return watched


def late_progress(name: str) -> Progress:
    """Return the same of what most often is done at once: then nothing is told."""
    return LateProgress(progress(name, None), BRIEF_S)


@asynccontextmanager
async def long_act(
    args: argparse.Namespace, work: AtWork, kind: str, about: Mapping[str, object], watched: Progress
) -> AsyncIterator[Progress]:
    """Have what is inside be an operation while it lasts: all see how far it is, and may stop it."""
    act = Act(args.actor or NOBODY, args.reason or NO_REASON)
    given = (work.settings.postgres, OperationKind(kind), about, act, owner(), watched)
    async with operations.long_act(*given) as told:
        yield told


class ProgressBar:
    """One line that is written over: phase, bar, rate, time left."""

    WIDTH, EVERY_S = 24, 0.1

    def __init__(
        self, name: str, limit: float | None = None, *, write: Callable[[str], Any] | None = None
    ) -> None:
        self._name, self._at = name, PhaseProgress(limit)
        self._write = write or sys.stderr.write
        self._drawn = clock.now()
        self._open = False

    def begin(self, phase: str, total: int) -> None:
        """Begin a phase; the line of the one before stays."""
        self._end_line()
        self._at.begin(phase, total)
        self._draw()

    async def advance(self, done: int) -> None:
        """Note that so many more are done; wait where a rate is kept."""
        now = clock.now()
        await self._at.advance(done)
        if now - self._drawn > self.EVERY_S:
            self._draw()

    def say(self, text: str) -> None:
        """Write a line."""
        self._end_line()
        note(f"{self._name}: {text}")

    def _draw(self) -> None:
        self._drawn = clock.now()
        at = self._at
        line = f"{self._name}: {at.phase}"
        if at.total:
            share = min(1.0, at.done / at.total)
            bar = "#" * round(share * self.WIDTH)
            line += f" [{bar:.<{self.WIDTH}}] {share:4.0%}  {at.per_s:,.0f}/s  {at.left_s:.0f} s left"
        elif at.done:
            line += f"  {at.done:,}  {at.per_s:,.0f}/s"
        self._write(f"\r\x1b[2K{line}")
        sys.stderr.flush()
        self._open = True

    def _end_line(self) -> None:
        if self._open:
            self._draw()
            self._write("\n")
            self._open = False
