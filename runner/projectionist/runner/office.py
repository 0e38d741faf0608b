"""What a process asks and tells the database outside of batches, over a few connections that all consumers share."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from projectionist.core.sql import Statements
from projectionist.runner.course import UNORDERED
from projectionist.runner.registry import Registry
from projectionist.runner.session import store_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    import asyncpg
    from asyncpg import Record

    from projectionist.core.settings import Policy
    from projectionist.projections.definition import Definition
    from projectionist.runner.consumer import Consumer
    from projectionist.runner.jetstream import Stream
    from projectionist.runner.store import Store


class Office:
    """Registration, heartbeats and re-arming, each on a connection lent for the moment."""

    def __init__(self, pool: asyncpg.Pool[Record], schema: str, *, readopt: bool = False) -> None:
        self._pool = pool
        self._schema = schema
        self._sql = Statements("projectionist.runner", schema)
        self._readopt = readopt
        self._joined: set[str] = set()

    async def registration(self, definition: Definition) -> Record:
        """The consumer's registration; raises NotRegistered where class and database disagree."""
        async with self._pool.acquire() as connection:
            return await Registry(connection, self._schema).checked(definition)

    async def join(
        self, definition: Definition, policy: Policy, stream: Stream, *, early: bool = False
    ) -> Consumer:
        """Join the processes that run this consumer; `early`: this one was there before the stream."""
        # Once: when it joins again after an outage, newer code may have taken over meanwhile.
        readopt = self._readopt and definition.name not in self._joined
        async with self._pool.acquire() as connection:
            registry = Registry(connection, self._schema)
            consumer = await registry.join(definition, policy, stream, early=early, readopt=readopt)
        self._joined.add(definition.name)
        return consumer

    async def shut(self, definition: Definition) -> bool:
        """Whether the consumer's breaker lets nobody try anything now."""
        return bool(await self._pool.fetchval(self._sql["breaker_shut"], definition.name))

    @asynccontextmanager
    async def store(self, consumer: Consumer) -> AsyncIterator[Store]:
        """The consumer's store on a lent connection, in no transaction."""
        async with self._pool.acquire() as connection:
            yield store_of(connection, self._schema, consumer.number)

    async def beat(self, runner: int, *facts: object) -> None:
        """Write a heartbeat."""
        await self._pool.execute(self._sql["beat"], runner, *facts)

    async def begins(self, consumer: Consumer) -> bool:
        """Whether aggregates of this consumer may still wait for a first version."""
        return bool(await self._pool.fetchval(self._sql["begins"], consumer.number))

    async def rearm(self, consumer: Consumer, most: int) -> list[Record]:
        """Make at most so many failed heads, or events without order, of other code than this due; which ones."""
        statement = "rearm_entries" if consumer.sequence == UNORDERED else "rearm"
        async with self._pool.acquire() as connection, connection.transaction():
            store = store_of(connection, self._schema, consumer.number)
            await store.enter()
            row = await store.control()
            if row is None or row["code"] != consumer.code or row["paused"]:
                return []
            return await connection.fetch(self._sql[statement], consumer.number, consumer.code, most)

    async def reread(self, consumer: Consumer, most: int) -> bool:
        """Have at most so much of quarantine read again that other code could not read; whether there was any."""
        tag = await self._pool.execute(self._sql["quarantine_rearm"], consumer.number, consumer.code, most)
        return not tag.endswith(" 0")

    async def rearmed(self, consumer: Consumer, sample: Sequence[Record]) -> tuple[bool, bool]:
        """Whether one of the sample has got through, and whether one is still to be tried."""
        statement = "rearmed_entries" if consumer.sequence == UNORDERED else "rearmed"
        columns = zip(*(tuple(row) for row in sample), strict=True)
        row = await self._pool.fetchrow(self._sql[statement], consumer.number, *columns)
        return (False, False) if row is None else (row["mended"], row["open"])
