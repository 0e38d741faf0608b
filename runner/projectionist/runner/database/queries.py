"""A builder's connection, the statements it runs, and the row that says what it is building."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import asyncpg
import msgspec

from projectionist.core import clock
from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.statements import Statements
from projectionist.core.retry_policy import RetryPolicy, interval
from projectionist.core.testpoints import announce
from projectionist.projections.folding.version_verdict import start
from projectionist.runner.database import barrier

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection
    from projectionist.projections.compiled.definition import ConsumerDefinition


PATIENCE_S = 60.0
"""How long a moment without an open batch is waited for."""
TRIES = RetryPolicy(initial_s=0.1, maximum_s=2.0)
"""How long batches are left alone between two tries."""
POSITIONS = "build_positions"
"""What statements call the table of a build's positions, and the one that such tables are made like."""


class RebuildError(ProjectionistError):
    """A rebuild cannot begin or go on. The live generation serves as before."""


class InUse(RebuildError):
    """Batches could not be kept out, or a table is in use."""


class BuildLost(RebuildError):
    """Another process has taken this build over, or it was ended: this one must write nothing more."""


class BuildView(msgspec.Struct, frozen=True):
    """What a build makes of a view, and what is live of it."""

    view: int
    name: str
    joins: bool
    """Whether batches leave it out until the swap."""
    generation: int
    revision: int
    shape: bytes
    code: bytes
    base: bytes
    """The code live ran when the build was opened."""
    live: int | None
    """The generation that readers see; None where there is none yet."""
    running: bytes
    """The code live runs now."""
    is_same_code: bool
    """Whether live was made, and runs, by the code that builds."""


class Build(msgspec.Struct):
    """An open build."""

    number: int
    consumer: int
    views: list[BuildView]
    kind: str
    phase: str
    epoch: int
    owner: str
    incarnation: int
    bulk_limit: int
    buckets: int
    finished: list[int]
    checkpoint: int
    partial: bool
    positions: int
    """Under which build the positions of its generation stand."""
    is_marked: bool
    """Whether batches leave marks for it; once they do not any more, it can only be removed."""

    def __str__(self) -> str:
        """Return what it makes, as messages name it."""
        if len(self.views) == 1:
            return f"generation {self.views[0].generation}"
        return ", ".join(f"generation {one.generation} of {one.name}" for one in self.views)


async def record_act(
    queries: Queries, consumer: int, action: str, about: str, act: Act, detail: object = None
) -> None:
    """Put on record who does what to a consumer, and why."""
    text = msgspec.json.encode(detail or {}).decode()
    await queries.run("insert_audit_entry", consumer, action, about, act.actor, act.reason, text)


def first_position(definition: ConsumerDefinition) -> int:
    """Return where an aggregate stands before its first event."""
    return start(definition.baseline)


class Queries:
    """Statements by name on one connection."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self.connection = connection
        self.schema = schema
        self.held_s = 0.0
        """How long it has kept batches out at most."""
        self._sql = Statements("projectionist.runner", schema)
        self._hold = barrier.Hold()
        self._positions: int | None = None
        """The build whose positions statements are about, once there is an open one."""

    async def run(self, statement: str, *arguments: object) -> None:
        """Run it."""
        await self.connection.execute(self._text(statement), *arguments)

    async def value(self, statement: str, *arguments: object) -> Any:
        """Return the one value it answers."""
        return await self.connection.fetchval(self._text(statement), *arguments)

    async def row(self, statement: str, *arguments: object) -> Record | None:
        """Return the one row it answers, if any."""
        return await self.connection.fetchrow(self._text(statement), *arguments)

    async def rows(self, statement: str, *arguments: object) -> list[Record]:
        """Return all rows."""
        return await self.connection.fetch(self._text(statement), *arguments)

    async def cursor(self, statement: str, *arguments: object) -> AsyncIterator[Record]:
        """Yield all rows, not all in memory at once. Inside a transaction."""
        async for row in self.connection.cursor(self._text(statement), *arguments, prefetch=5_000):
            yield row

    @asynccontextmanager
    async def alone(
        self, consumer: int, what: str, *, within_s: float | None = barrier.HOLD_S
    ) -> AsyncIterator[None]:
        """Open a transaction that keeps every batch of the consumer out, asking for it again and again for short
        moments.

        Raises BarrierTimeout where it would take longer, InUse where a batch or what is changed is in use for too long.
        """
        until, tries = clock.now() + PATIENCE_S, 0
        while True:
            entered = False
            try:
                async with self.alone_once(consumer, what, within_s=within_s, wait_s=barrier.patience(tries)):
                    entered = True
                    yield
                    return
            except asyncpg.LockNotAvailableError as error:
                if entered or clock.now() > until:
                    raise InUse(
                        f"{what}: a batch is open for too long, or another session uses a table that is to be changed",
                        remedy="Nothing was changed; pg_stat_activity names the transaction, try again after it",
                    ) from error
            announce("barrier.refused")
            tries += 1
            await anyio.sleep(interval(TRIES, tries))

    @asynccontextmanager
    async def alone_once(
        self, consumer: int, what: str, *, within_s: float | None, wait_s: float
    ) -> AsyncIterator[None]:
        """Do the same in one try; raise LockNotAvailableError where open batches take longer than `wait_s`."""
        hold = barrier.Hold()
        try:
            given = (self.connection, self.schema, consumer, what)
            async with barrier.alone(*given, within_s=within_s, wait_s=wait_s) as hold:
                self._hold = hold
                yield
        finally:
            self.held_s = max(self.held_s, hold.seconds)

    async def show(self, consumer: int) -> None:
        """Commit inside `alone_once` and go on: whoever looks from now on sees what was done."""
        await barrier.show(self.connection, self.schema, consumer, self._hold)

    async def control(self, view: int) -> Record:
        """Return the control row of a consumer with one of its views, as builds read it."""
        row = await self.row("select_build_control_row", view)
        assert row is not None, "consumers that are worked on are not deleted"
        return row

    async def open_build(self, consumer: int) -> Build | None:
        """Return the build that is open for a consumer, whoever builds."""
        row = await self.row("select_open_build", consumer)
        if row is None:
            return None
        self._positions = row["positions"]
        return Build(**dict(row), views=await self.build_views(row["number"]))

    async def build_views(self, build: int) -> list[BuildView]:
        """Return what a build makes, and what is live of it now."""
        return [BuildView(**dict(row)) for row in await self.rows("select_build_views", build)]

    async def hold(self, build: Build) -> None:
        """Lock the build's row for this transaction; raises BuildLost if it is no longer ours."""
        if await self.row("lock_build", build.number, build.epoch) is None:
            raise BuildLost(
                f"the build of {build} was taken over or ended by another process",
                remedy="Look at `generations list`; the live generation serves as before",
            )

    def _text(self, statement: str) -> str:
        """Return the statement; positions of a build are in a table of its own, so that no build waits for
        another's."""
        text = self._sql[statement]
        return (
            text
            if self._positions is None
            else text.replace(f".{POSITIONS}", f".{POSITIONS}_{self._positions}")
        )
