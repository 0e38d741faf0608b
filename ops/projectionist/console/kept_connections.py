"""Keeps a connection or two between two looks, so that an open page asks for nothing but what it shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from projectionist.core import clock
from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres import connections
from projectionist.migrations import MigrationError, plan

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Postgres

KEPT = 2
"""So many are kept while nobody reads: one look and one page at a time are usual."""
IDLE_S = 15.0
"""So long one is kept that nobody has asked for: pages that are open ask every few seconds."""
CHECKED_S = 60.0
"""So long it is trusted that the tables are those of this release."""
ALIVE_AFTER = (asyncpg.PostgresError, ProjectionistError)
"""Lists what a reading may end with and leave its connection in order."""


class KeptConnection:
    """A connection that goes from page to page: nobody changes its settings, or takes a lock that lasts."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self.connection = connection
        self.checked = float("-inf")
        """When its tables were last seen to be those of this release."""
        self.idle: asyncio.TimerHandle | None = None


class KeptConnections:
    """Lends connections for reading, and keeps some for whoever comes next; what was kept too long is closed."""

    def __init__(
        self, postgres: Postgres, *, idle_s: float = IDLE_S, now: Callable[[], float] = clock.now
    ) -> None:
        self._postgres, self._idle_s, self._now = postgres, idle_s, now
        self._kept: list[KeptConnection] = []
        self._end: AsyncGenerator[None, None] | None = None

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[KeptConnection]:
        """Lend one, of this release's database or not; raise ProjectionistError if there is none to be had."""
        one = self._taken() or await self._opened()
        try:
            yield one
        except ALIVE_AFTER:
            self._back(one)
            raise
        except BaseException:
            one.connection.terminate()  # cut off in the middle of an answer, maybe
            raise
        self._back(one)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        """Lend one whose tables are this release's; raise MigrationError if they are not."""
        async with self.lent() as one:
            if self._now() - one.checked >= CHECKED_S:
                if await plan(one.connection, self._postgres.schema):
                    raise MigrationError(
                        "the database lacks tables of this release", remedy="Run `projectionist migrate`"
                    )
                one.checked = self._now()
            yield one.connection

    def close(self) -> None:
        """Close what is kept; whoever asks afterwards is lent another one."""
        while (one := self._taken()) is not None:
            one.connection.terminate()

    def _taken(self) -> KeptConnection | None:
        while self._kept:
            one = self._kept.pop()
            if one.idle is not None:
                one.idle.cancel()
            if not one.connection.is_closed():
                return one
        return None

    async def _opened(self) -> KeptConnection:
        if self._end is None:
            self._end = self._until_the_loop_ends()
            await anext(self._end)
        return KeptConnection(
            await connections.connect(self._postgres, application_name="projectionist console", deadline=True)
        )

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        """Close what is kept when the event loop ends: nobody tells an application that is mounted into another one."""
        try:
            yield
        finally:
            self.close()
            await asyncio.sleep(0)  # the loop lets go of them in its next round

    def _back(self, one: KeptConnection) -> None:
        if one.connection.is_closed():
            return
        if len(self._kept) >= KEPT or one.connection.is_in_transaction():
            one.connection.terminate()
            return
        self._kept.append(one)
        one.idle = asyncio.get_running_loop().call_later(self._idle_s, self._let_go, one)

    def _let_go(self, one: KeptConnection) -> None:
        self._kept.remove(one)
        one.connection.terminate()
