"""What a process asks and tells the database outside of batches, over a few connections that all consumers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.core.sql import Statements
from projectionist.runner.registry import Registry

if TYPE_CHECKING:
    import asyncpg
    from asyncpg import Record

    from projectionist.core.settings import Policy
    from projectionist.projections.definition import Definition
    from projectionist.runner.consumer import Consumer
    from projectionist.runner.jetstream import Stream


class Office:
    """Registration, heartbeats and re-arming, each on a connection lent for the moment."""

    def __init__(self, pool: asyncpg.Pool[Record], schema: str, *, readopt: bool = False) -> None:
        self._pool = pool
        self._schema = schema
        self._sql = Statements("projectionist.runner", schema)
        self._readopt = readopt

    async def registration(self, definition: Definition) -> Record:
        """The consumer's registration; raises NotRegistered where class and database disagree."""
        async with self._pool.acquire() as connection:
            return await Registry(connection, self._schema).checked(definition)

    async def join(self, definition: Definition, policy: Policy, stream: Stream) -> Consumer:
        """Join the processes that run this consumer."""
        async with self._pool.acquire() as connection:
            return await Registry(connection, self._schema).join(
                definition, policy, stream, readopt=self._readopt
            )

    async def beat(self, runner: int, *facts: object) -> None:
        """Write a heartbeat."""
        await self._pool.execute(self._sql["beat"], runner, *facts)

    async def begins(self, consumer: Consumer) -> bool:
        """Whether aggregates of this consumer may still wait for a first version."""
        return bool(await self._pool.fetchval(self._sql["begins"], consumer.number))

    async def rearm(self, consumer: Consumer, most: int) -> list[str]:
        """Make at most so many heads due that failed on other code than this; which ones."""
        statement = self._sql["rearm_entries" if consumer.sequence == "unordered" else "rearm"]
        rows = await self._pool.fetch(statement, consumer.number, consumer.code, most)
        return [row[0] for row in rows]

    async def rearmed(self, consumer: Consumer, aggregates: list[str]) -> tuple[bool, bool]:
        """Whether one of these heads has got through, and whether one is still to be tried."""
        row = await self._pool.fetchrow(self._sql["rearmed"], consumer.number, aggregates)
        return (False, False) if row is None else (row["mended"], row["open"])
