"""Pause a consumer and let it go on: under the exclusive barrier, so that no batch is open when it is said."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from projectionist.core.postgres.statements import Statements
from projectionist.core.testpoints import announce
from projectionist.runner.consumers.registry import registration
from projectionist.runner.database import barrier
from projectionist.runner.database.barrier import Busy

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection


async def pause(connection: Connection, schema: str, consumer: str, act: Act) -> bool:
    """Have no process apply anything of this consumer until `resume`; return False if it was paused already.

    What a process has fetched is given back to the broker; nothing is acknowledged. Raises NotRegistered or Busy.
    """
    return await _set(connection, schema, consumer, act, paused=True)


async def resume(connection: Connection, schema: str, consumer: str, act: Act) -> bool:
    """Let it go on, within a second or so; whether it was paused."""
    return await _set(connection, schema, consumer, act, paused=False)


async def _set(connection: Connection, schema: str, consumer: str, act: Act, *, paused: bool) -> bool:
    sql = Statements("projectionist.runner", schema)
    async with alone(connection, schema, consumer, "pause" if paused else "resume") as row:
        if await connection.fetchrow(sql["set_paused"], row["number"], paused) is None:
            return False
        action = "pause" if paused else "resume"
        await connection.execute(
            sql["insert_audit_entry"], row["number"], action, consumer, act.actor, act.reason, "{}"
        )
    announce("consumer.paused" if paused else "consumer.resumed")
    return True


@asynccontextmanager
async def alone(
    connection: Connection, schema: str, consumer: str, what: str, *, within_s: float | None = barrier.HOLD_S
) -> AsyncIterator[Record]:
    """Open a transaction beside which no batch of the consumer is open; yield its registration.

    Raises NotRegistered, Busy where a batch is open for longer than `lock_s`, or BarrierTimeout.
    """
    found = await registration(connection, schema, consumer)
    entered = False
    try:
        async with barrier.alone(connection, schema, found["number"], what, within_s=within_s):
            entered = True
            # Again: another holder of the barrier may have changed or retired it meanwhile.
            yield await registration(connection, schema, consumer)
    except asyncpg.LockNotAvailableError:
        if entered:
            raise
        raise Busy(
            f"a batch of {consumer!r} has been open for longer than lock_s",
            remedy="Try again; a process that is frozen is ended by the others, or by you",
        ) from None
