"""The proxy that has any statement fail: what a client meets behind it is what PostgreSQL would have done."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio
from tests.support.faults import Fault, Faults, faulty
from tests.support.servers import SCHEMA

from projectionist.core.postgres.statements import Statements

pytestmark = pytest.mark.asyncio

BEAT = Statements("projectionist.runner", SCHEMA)["update_heartbeat"]
BEATING = (1, "running", 1, None, None, None, None)


@pytest_asyncio.fixture
async def faults(database: str) -> AsyncIterator[Faults]:
    async with faulty(database, SCHEMA) as made:
        yield made


@pytest_asyncio.fixture
async def connection(faults: Faults) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    made = await asyncpg.connect(faults.url)
    yield made
    made.terminate()


async def state_of(connection: asyncpg.Connection[asyncpg.Record], sql: str, *args: object) -> str | None:
    try:
        await connection.execute(sql, *args)
    except asyncpg.PostgresError as error:
        return error.sqlstate
    return None


async def test_a_statement_of_ours_fails_with_the_wanted_state_and_others_go_through(
    faults: Faults, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    faults.stand(Fault("update_heartbeat", "58030"))
    assert await state_of(connection, BEAT, *BEATING) == "58030"
    assert await connection.fetchval("select $1::int", 5) == 5
    faults.lift()
    assert await state_of(connection, BEAT, *BEATING) is None
    assert faults.asked.counts["update_heartbeat"] == 2
    assert faults.failed.counts["update_heartbeat"] == 1


async def test_it_fails_only_where_its_parameters_hold_what_is_said(
    faults: Faults, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    faults.stand(Fault("select", "22001", holding=b"poison"))
    assert await state_of(connection, "select $1::text", "pure") is None
    assert await state_of(connection, "select $1::text[]", ["pure", "some poison"]) == "22001"


async def test_of_many_rows_one_fails_all(
    faults: Faults, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    await connection.execute("create table t (a text)")
    faults.stand(Fault("insert", "23514", holding=b"poison"))
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.executemany("insert into t values ($1)", [("a",), ("poison",), ("b",)])
    assert await connection.fetchval("select count(*) from t") == 0
    await connection.executemany("insert into t values ($1)", [("a",), ("b",)])
    assert await connection.fetchval("select count(*) from t") == 2


async def test_the_transaction_has_failed_too_until_it_is_rolled_back(
    faults: Faults, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    faults.stand(Fault("update", "XX000"))
    await connection.execute("begin")
    assert await state_of(connection, "update projectionist.runners set pid = $1", 1) == "XX000"
    assert await state_of(connection, "select 1") == "25P02"
    await connection.execute("rollback")
    assert await state_of(connection, "select 1") is None


@pytest.mark.parametrize("done", [False, True])
async def test_a_commit_fails_and_has_ended_its_transaction_done_or_not(
    faults: Faults, connection: asyncpg.Connection[asyncpg.Record], *, done: bool
) -> None:
    await connection.execute("create table t (a text)")
    faults.stand(Fault("commit", "40003", done=done))
    with pytest.raises(asyncpg.StatementCompletionUnknownError):
        async with connection.transaction():
            await connection.execute("insert into t values ($1)", "a")
    assert not connection.is_closed()
    assert await connection.fetchval("select count(*) from t") == int(done)


@pytest.mark.parametrize("done", [False, True])
async def test_a_session_ends_with_its_commit_done_or_not(
    faults: Faults, connection: asyncpg.Connection[asyncpg.Record], database: str, *, done: bool
) -> None:
    await connection.execute("create table t (a text)")
    faults.stand(Fault("commit", "57P01", ends=True, done=done))
    with pytest.raises((asyncpg.AdminShutdownError, asyncpg.ConnectionDoesNotExistError)):
        async with connection.transaction():
            await connection.execute("insert into t values ($1)", "a")
    assert connection.is_closed()
    other = await asyncpg.connect(database)
    assert await other.fetchval("select count(*) from t") == int(done)
    await other.close()


async def test_a_session_ends_in_the_middle_and_new_ones_work(
    faults: Faults, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    faults.stand(Fault("select", "57P02", holding=b"poison", ends=True))
    with pytest.raises((asyncpg.CrashShutdownError, asyncpg.ConnectionDoesNotExistError)):
        await connection.fetch("select $1::text", "poison")
    assert connection.is_closed()
    other = await asyncpg.connect(faults.url)
    assert await other.fetchval("select 1") == 1
    await other.close()
