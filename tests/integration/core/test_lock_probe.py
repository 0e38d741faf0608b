"""Servers whose locks keep nobody out: PostgreSQL made to answer as other engines have."""

from __future__ import annotations

import asyncpg
import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import projectionist
from tests.support.servers import SCHEMA
from tests.support.shop_app import APP, environment

from projectionist.core.postgres import connections
from projectionist.core.postgres.lock_probe import LockShared, refuse_weak_locks
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Postgres
from projectionist.ops.doctor.examine import examine
from projectionist.runner import App

pytestmark = pytest.mark.asyncio

_RENAMED = "alter function pg_catalog.{name}(bigint) rename to {name}_of_postgresql"
_STUB = "create function pg_catalog.{name}(bigint) returns {answer} language sql as 'select {value}'"
TAKE, TRY = "pg_advisory_xact_lock", "pg_try_advisory_xact_lock_shared"


async def weaken(database: str, name: str, answer: str, value: str) -> None:
    """Have a function of the locks answer without a lock, in this database."""
    connection = await asyncpg.connect(database)
    try:
        await connection.execute(_RENAMED.format(name=name))
        await connection.execute(_STUB.format(name=name, answer=answer, value=value))
    finally:
        await connection.close()


async def probed(database: str) -> None:
    settings = Postgres(url=Url(database), schema=SCHEMA)
    connection = await connections.connect(settings, application_name="test")
    try:
        await refuse_weak_locks(connection, settings)
    finally:
        await connection.close()


async def test_the_locks_of_postgresql_hold(database: str) -> None:
    await probed(database)


@pytest.mark.parametrize(
    ("name", "answer", "value", "problem"),
    [
        (TAKE, "void", "null::void", "is granted to another"),
        (TRY, "boolean", "true", "is granted to another"),
        (TRY, "boolean", "false", "stays when the transaction"),
    ],
    ids=["nobody has one", "everybody has one", "nobody gets one"],
)
async def test_locks_that_keep_nobody_out_are_refused_and_so_are_those_that_stay(
    database: str, name: str, answer: str, value: str, problem: str
) -> None:
    await weaken(database, name, answer, value)
    with pytest.raises(LockShared, match=problem) as raised:
        await probed(database)
    assert "PostgreSQL 1" in raised.value.message


async def test_a_server_that_knows_no_such_lock_is_refused(database: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute(_RENAMED.format(name=TAKE))
    await connection.close()
    with pytest.raises(LockShared, match="no locks by number"):
        await probed(database)


@pytest.mark.parametrize("command", ["run", "relay", "migrate"])
async def test_no_command_begins_where_locks_do_not_hold(live: ConsumerHarness, command: str) -> None:
    await weaken(live.database, TRY, "boolean", "true")
    app = "tests.support.relay_app:events" if command == "relay" else APP
    async with projectionist(command, app, env=environment(live)) as child:
        ended = await child.ended()
    assert ended.code == 1
    assert "a lock that one session holds is granted to another" in ended.err
    assert "Traceback" not in ended.err


async def test_the_doctor_says_that_locks_do_not_hold(live: ConsumerHarness) -> None:
    await weaken(live.database, TRY, "boolean", "true")
    checks = (await examine(App(), (), live.settings)).checks
    [one] = [check for check in checks if check.name == "locks"]
    assert (one.level, "granted to another" in one.found) == ("attention", True)
