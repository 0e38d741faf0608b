"""Leases on a real PostgreSQL, whose clock alone decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from projectionist.core import clock
from projectionist.core.postgres.connections import Connection
from projectionist.core.postgres.leases import Leases

pytestmark = pytest.mark.asyncio

LONG_S = 600.0
MINE, YOURS = Leases("projectionist", "mine"), Leases("projectionist", "yours")


@pytest_asyncio.fixture
async def connection(database: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


async def expire(connection: Connection, name: str) -> None:
    await connection.execute(
        "update projectionist.leases set expires_at = clock_timestamp() where name = $1", name
    )


async def test_one_of_two_owners_has_it_until_it_is_given_back(connection: Connection) -> None:
    mine = await MINE.acquire(connection, "purge", LONG_S)
    assert mine is not None
    assert await YOURS.acquire(connection, "purge", LONG_S) is None
    assert await YOURS.acquire(connection, "archive", LONG_S) is not None
    await MINE.release(connection, mine)
    yours = await YOURS.acquire(connection, "purge", LONG_S)
    assert yours is not None
    assert yours.epoch == mine.epoch + 1


async def test_an_owner_that_resumes_after_its_lease_ended_is_refused(connection: Connection) -> None:
    mine = await MINE.acquire(connection, "purge", LONG_S)
    assert mine is not None
    await expire(connection, "purge")
    assert await MINE.renew(connection, mine) is None, "over is over, even before somebody takes it"
    yours = await YOURS.acquire(connection, "purge", LONG_S)
    assert yours is not None
    assert await MINE.renew(connection, mine) is None
    await MINE.release(connection, mine)
    assert await YOURS.renew(connection, yours) is not None, "a late release ended somebody else's lease"


async def test_renewing_keeps_the_epoch_and_moves_both_ends(connection: Connection) -> None:
    first = await MINE.acquire(connection, "purge", LONG_S)
    assert first is not None
    ends = await connection.fetchval("select expires_at from projectionist.leases")
    second = await MINE.renew(connection, first)
    assert second is not None
    assert second.epoch == first.epoch
    assert second.trusted_until > first.trusted_until
    assert await connection.fetchval("select expires_at from projectionist.leases") > ends


async def test_asking_again_after_an_unknown_answer_gives_a_higher_epoch(connection: Connection) -> None:
    lost = await MINE.acquire(connection, "purge", LONG_S)
    again = await MINE.acquire(connection, "purge", LONG_S)
    assert lost is not None
    assert again is not None
    assert again.epoch > lost.epoch
    assert await MINE.renew(connection, lost) is None


async def test_of_many_that_ask_at_once_one_gets_it(database: str) -> None:
    async def ask(number: int) -> bool:
        connection = await asyncpg.connect(database)
        try:
            return (
                await Leases("projectionist", f"owner {number}").acquire(connection, "x", LONG_S) is not None
            )
        finally:
            await connection.close()

    assert sum(await asyncio.gather(*map(ask, range(10)))) == 1


async def test_a_taker_that_waited_for_the_row_counts_its_time_from_after_the_wait(database: str) -> None:
    holder, taker = await asyncpg.connect(database), await asyncpg.connect(database)
    try:
        await MINE.acquire(holder, "x", LONG_S)
        held = holder.transaction()
        await held.start()
        await expire(holder, "x")
        waiting = asyncio.create_task(YOURS.acquire(taker, "x", LONG_S))
        watched = "select exists (select from pg_locks where pid = $1 and not granted)"
        while not await holder.fetchval(watched, taker.get_server_pid()):
            assert not waiting.done()
        released = await holder.fetchval("select clock_timestamp()")
        await held.commit()
        assert await waiting is not None
        remaining = "select expires_at - $1::timestamptz from projectionist.leases"
        assert (await holder.fetchval(remaining, released)).total_seconds() >= LONG_S
    finally:
        await holder.close()
        await taker.close()


async def test_the_holder_stops_trusting_before_the_database_lets_go(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    lease = await MINE.acquire(connection, "purge", 10.0)
    assert lease is not None
    assert lease.trusted()
    assert lease.trusted_until == pytest.approx(now + 9.0)
    now += 9.001
    assert not lease.trusted()
