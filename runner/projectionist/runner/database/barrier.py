"""The exclusive barrier: a transaction beside which no batch of a consumer is open. All its batches wait meanwhile.

So who holds it waits for PostgreSQL alone, and not for long: what the broker has to say is asked before, and a deadline
undoes everything. How long it was held is measured, whoever held it. One request to the broker is made inside: to move
a durable (`sighting.move`), which no open batch may see; it is under the same deadline, and made again where it was cut
off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from projectionist.core import clock
from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.connections import advisory_key
from projectionist.core.postgres.statements import Statements
from projectionist.core.retry_policy import RetryPolicy, interval
from projectionist.core.telemetry import instruments, metrics, names

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection

HOLD_S = 2.0
"""The longest that the barrier is held, but for changes of tables by `migrate`."""
FROZEN_S = 1.0
"""How long after the holder's own deadline PostgreSQL ends its session: whoever is frozen keeps no deadline."""
SHORT = RetryPolicy(initial_s=0.2, coefficient=1.25, maximum_s=1.0)
"""How long rebuilds and `migrate` keep batches or readers waiting at a time: longer where that was too short."""


def patience(tries: int, schedule: RetryPolicy = SHORT) -> float:
    """Return how long batches may be kept waiting after so many tries that were too short. Pure."""
    return interval(schedule, tries + 1)


class BarrierTimeout(ProjectionistError):
    """The barrier was held for as long as it may be: all is undone, and may be tried again."""


class Hold(msgspec.Struct):
    """Tells after the block how long the barrier was held."""

    seconds: float = 0.0
    kept: bool = False
    """Whether it may stand beyond its transaction."""
    within_s: float | None = None
    """How long it may be held; None for as long as the session may be idle."""


@asynccontextmanager
async def alone(
    connection: Connection,
    schema: str,
    consumer: int,
    what: str,
    *,
    within_s: float | None = HOLD_S,
    wait_s: float | None = None,
) -> AsyncIterator[Hold]:
    """Open a transaction beside which no batch of this consumer is open; raise BarrierTimeout after `within_s`.

    Open batches are waited for no longer than `wait_s`, or the connection's lock_timeout, which stays so inside: new
    ones wait meanwhile. `what` is done, for whoever measures.
    """
    hold, began = Hold(within_s=within_s), None
    sql, key = Statements("projectionist.runner", schema), barrier_key(schema, consumer)
    try:
        async with connection.transaction():
            await _end_frozen(connection, hold)
            if wait_s is not None:
                await connection.execute(f"set local lock_timeout = '{wait_s * 1000:.0f}ms'")
            await connection.execute(sql["lock_consumer_exclusive"], key)
            began = clock.now()
            # Cancels once and not for good: what has to be undone is undone after it.
            limit = asyncio.timeout(within_s)
            try:
                async with limit:
                    yield hold
            except TimeoutError:
                if not limit.expired():
                    raise
                raise BarrierTimeout(
                    f"{what} kept all batches of the consumer waiting for {within_s:g} s: nothing was changed",
                    remedy="It may be tried again; a broker or a disk that answers slowly is the usual reason",
                ) from None
    finally:
        if began is not None:
            if hold.kept and not connection.is_closed():
                await connection.execute(sql["release_consumer_lock"], key)
            hold.seconds = clock.now() - began
            note(what, hold.seconds)


async def show(connection: Connection, schema: str, consumer: int, hold: Hold) -> None:
    """Commit what was done so far inside `alone`, and go on in another transaction: no batch comes in between."""
    sql, key = Statements("projectionist.runner", schema), barrier_key(schema, consumer)
    hold.kept = True
    await connection.execute(sql["keep_consumer_lock"], key)
    await connection.execute("commit and chain")
    await _end_frozen(connection, hold)
    await connection.execute(sql["lock_consumer_exclusive"], key)
    await connection.execute(sql["release_consumer_lock"], key)
    hold.kept = False


async def _end_frozen(connection: Connection, hold: Hold) -> None:
    """Have PostgreSQL end the session in this transaction where it says nothing for longer than the barrier is held."""
    if hold.within_s is not None:
        idle_ms = (hold.within_s + FROZEN_S) * 1000
        await connection.execute(f"set local idle_in_transaction_session_timeout = '{idle_ms:.0f}ms'")


def note(what: str, seconds: float) -> None:
    """Tell how long the barrier was held for this."""
    metrics.record(instruments.BARRIER, seconds, {names.WHAT: what})


def barrier_key(schema: str, number: int) -> int:
    """Return the advisory lock that every batch of a consumer shares, and that a taker holds alone."""
    return advisory_key(schema, f"consumer:{number}")


class Busy(ProjectionistError):
    """A batch of the consumer has been open for too long to wait for it."""
