"""Long acts of one process (a rebuild, a verify, a purge, an erase) as operations: seen, and stopped from elsewhere.

Where such an act stands is in tables of its own, or nowhere: it is begun again, not taken up. The row says who does it
and why, and how far it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
import asyncpg

from projectionist.core import clock
from projectionist.core.background_thread import BackgroundThread
from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres import connections
from projectionist.core.postgres.error_class import is_transient
from projectionist.core.postgres.error_text import said
from projectionist.core.states import OperationOutcome
from projectionist.core.task_groups import unwrap_single_exception
from projectionist.core.testpoints import announce
from projectionist.runner.history.progress import Watched
from projectionist.runner.operations.carrier import LAST_WORD_S
from projectionist.runner.operations.operation_store import (
    NAME,
    Grant,
    OperationStore,
    StopRequested,
    lent_store,
)

if TYPE_CHECKING:
    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Postgres
    from projectionist.runner.history.progress import Progress
    from projectionist.runner.operations.operation import OperationKind

BEAT_S = 1.0


class ActStopped(ProjectionistError):
    """Somebody has asked for the end of a long act."""


@asynccontextmanager
async def long_act(
    postgres: Postgres,
    kind: OperationKind,
    about: Mapping[str, object],
    act: Act,
    owner: str,
    progress: Progress,
) -> AsyncIterator[Watched]:
    """Have what is inside be an operation while it lasts; it has to tell how it goes to what this gives.

    `about` is shown to all who may look, and kept: it holds no content. Raises ActStopped where somebody asks for an
    end: what is inside is cancelled then. A standby takes no row: what only reads goes on there without one.
    """
    watched = _AllPhases(progress)
    grant = await _begun(postgres, kind, about, act, owner)
    if grant is None:
        yield watched
        return
    announce("long_act.begun")
    keeper = _SignsOfLife(postgres, grant, watched)
    beside = BackgroundThread(f"operation {grant.number}", keeper.keep)
    beside.start()
    outcome, note = OperationOutcome.STOPPED, "interrupted"
    try:
        with unwrap_single_exception():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(beside.ended)
                yield watched
                outcome, note = OperationOutcome.DONE, ""
                tasks.cancel_scope.cancel()
    except StopRequested as asked:
        if outcome is not OperationOutcome.DONE:  # whoever stops what is done has come too late
            note = str(asked)
            raise ActStopped(
                f"operation {grant.number} was stopped: {asked}",
                remedy="What it has done stays done: begin it again when it is right",
            ) from None
    except Exception as error:
        outcome, note = OperationOutcome.FAILED, said(error)
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await beside.stop()
            await _end(postgres, grant, kind, watched, outcome, note or None)


async def _begun(
    postgres: Postgres, kind: OperationKind, about: Mapping[str, object], act: Act, owner: str
) -> Grant | None:
    """Put it on record; return None where the database takes no rows."""
    try:
        async with lent_store(postgres) as store:
            return await store.begin_long_act(kind, about, act, owner)
    except asyncpg.ReadOnlySQLTransactionError:
        return None


class _AllPhases(Watched):
    """Counts what was done over all phases, too."""

    def __init__(self, inner: Progress) -> None:
        super().__init__(inner)
        self.whole, self._began = 0, clock.now()

    async def advance(self, done: int) -> None:
        """Count so many more."""
        self.whole += done
        await super().advance(done)

    @property
    def whole_per_s(self) -> float:
        """Return how many were done in a second, from the beginning."""
        return self.whole / max(clock.now() - self._began, 1e-3)


async def _end(
    postgres: Postgres,
    grant: Grant,
    kind: OperationKind,
    watched: _AllPhases,
    outcome: OperationOutcome,
    note: str | None,
) -> None:
    """Say how it ended, if the database can be had; without a word the row says that nobody carries it out."""
    with suppress(Exception):
        async with asyncio.timeout(LAST_WORD_S), lent_store(postgres) as store:
            told = (watched.total, watched.done, watched.per_s)
            if outcome is OperationOutcome.DONE:
                told = (watched.whole, watched.whole, watched.whole_per_s)
            with suppress(StopRequested):
                await store.beat(grant, watched.phase, *told)
            await store.end(grant, outcome, note)
            if kind.may_be_brief:
                await store.forget_brief_act(grant)


class _SignsOfLife:
    """Gives signs of life over a connection of its own, beside the event loop, which handlers hold up."""

    def __init__(self, postgres: Postgres, grant: Grant, watched: Watched) -> None:
        self._postgres, self._grant, self._watched = postgres, grant, watched

    async def keep(self, ending: asyncio.Event) -> None:
        """Give them until the end. Raise StopRequested or OperationLost."""
        connection: Connection | None = None
        try:
            while not ending.is_set():
                connection = await self._beaten(connection)
                with suppress(TimeoutError):
                    await asyncio.wait_for(ending.wait(), BEAT_S)
        finally:
            if connection is not None:
                connection.terminate()

    async def _beaten(self, connection: Connection | None) -> Connection | None:
        """Give one; return the connection, None where there was trouble: then it is tried again."""
        at = self._watched
        try:
            connection = connection or await connections.connect(self._postgres, application_name=NAME)
            store = OperationStore(connection, self._postgres.schema)
            await store.beat(self._grant, at.phase, at.total, at.done, at.per_s)
        except Exception as error:
            if connection is not None:
                connection.terminate()
            if not is_transient(error):
                raise
            return None
        announce("long_act.beaten")
        return connection
