"""The connections of one process that all its consumers share, each lent for the moment."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import asyncpg

from projectionist.runner.batch.batch_session import store_of
from projectionist.runner.database.availability import Gates
from projectionist.runner.database.barrier import alone
from projectionist.runner.database.dead_sessions import DeadSessions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from asyncpg import Record
    from asyncpg.pool import PoolConnectionProxy

    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.inbox_store import InboxStore


class SharedPool:
    """Lends connections: for a moment, beside no batch of a consumer, or as the store of one."""

    def __init__(self, pool: asyncpg.Pool[Record], schema: str, heartbeat_s: float) -> None:
        self._pool = pool
        self._patient = anyio.Semaphore(max(1, pool.get_max_size() - 1))
        self.schema = schema
        self.gates = Gates()
        self.peers = DeadSessions(self.at_once, schema, heartbeat_s)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[PoolConnectionProxy[Record]]:
        """Lend a connection for the moment; while PostgreSQL cannot be reached, when it is our turn to try.

        One is left for those who wait for nobody: however many stand before a barrier, heartbeats go on.
        """
        async with self._patient, self.at_once() as connection:
            yield connection

    @asynccontextmanager
    async def at_once(self) -> AsyncIterator[PoolConnectionProxy[Record]]:
        """Lend one for a statement that waits for no lock: a heartbeat, a look at blocking sessions."""
        if self._pool.get_idle_size():  # nothing is opened, so nothing is learned
            connection = await self._pool.acquire()
        else:
            connection = await self.gates.reach.attempt(self._pool.acquire)
        try:
            yield connection
        finally:
            await self._pool.release(connection)

    @asynccontextmanager
    async def alone(self, consumer: int) -> AsyncIterator[PoolConnectionProxy[Record]]:
        """Open a transaction beside which no batch of this consumer is open; dead or frozen sessions are ended."""
        async with (
            self.lend() as connection,
            self.peers.terminating_blockers(connection.get_server_pid()),
            alone(connection, self.schema, consumer, "stream_guard"),
        ):
            yield connection

    @asynccontextmanager
    async def store(self, consumer: Consumer) -> AsyncIterator[InboxStore]:
        """Yield the consumer's store on a lent connection, in no transaction."""
        async with self.lend() as connection:
            yield store_of(connection, self.schema, consumer.number)
