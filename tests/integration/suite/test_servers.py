"""The servers keep what they promise to every other test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest
from tests.support.peers import patient
from tests.support.servers import Servers, Stream
from tests.support.waiting import eventually, listening

from projectionist.core import testpoints
from projectionist.core.project_servers import runs

ROOT = Path(__file__).parents[3]


@pytest.mark.asyncio
async def test_a_database_is_migrated_and_nobody_elses(servers: Servers, database: str) -> None:
    connection = await asyncpg.connect(database)
    assert await connection.fetchval("select count(*) from projectionist.migrations") > 0
    assert await connection.fetchval("show synchronous_commit") == "on"
    await connection.execute("create table mine (x int)")
    other = servers.make_database()
    neighbour = await asyncpg.connect(other)
    assert not await neighbour.fetchval("select to_regclass('mine') is not null")
    await neighbour.close()
    servers.drop_database(other)
    await connection.close()


@pytest.mark.asyncio
async def test_what_is_committed_and_published_survives_killed_servers(
    servers: Servers, database: str, stream: Stream
) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute("create table kept as select 1 as x")
    client = await patient(servers.nats_url, allow_reconnect=False)
    await client.jetstream().publish(stream.subject("order", "1"), b"kept")
    await client.close()
    servers.kill_postgres()
    servers.kill_nats()
    await eventually(lambda: _closed(connection))
    servers.up()
    connection = await asyncpg.connect(database)
    assert await connection.fetchval("select x from kept") == 1
    await connection.close()
    client = await patient(servers.nats_url)
    message = await client.jetstream().get_msg(stream.name, 1)
    assert message.data == b"kept"
    await client.close()


async def _closed(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
    return connection.is_closed()


@pytest.mark.asyncio
async def test_eventually_says_what_it_last_saw() -> None:
    async def zero() -> int:
        return 0

    with pytest.raises(AssertionError, match=r"still 0 after 0\.02 s"):
        await eventually(zero, seconds=0.02)


@pytest.mark.asyncio
async def test_a_moment_in_this_process_can_be_awaited() -> None:
    with listening() as heard:
        testpoints.announce("here")
        await heard.wait("here")
        with pytest.raises(AssertionError, match=r"'here' announced 1 times, not 2"):
            await heard.wait("here", count=2, seconds=0.02)


_SESSION = """
import sys, time
from tests.support.servers import Servers
with Servers() as servers:
    found = servers._servers
    print(found.postgres.pid(), found.postgres.folder, found.nats.pid(), found.home, flush=True)
    sys.stdin.read()
"""


def test_the_next_session_cleans_up_after_a_killed_one_and_only_that(servers: Servers) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _SESSION], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as session:
        assert session.stdout
        postgres, data, nats_pid, home = session.stdout.readline().split()
        session.kill()
    assert runs(int(postgres), data)
    with Servers() as next_session:
        assert not runs(int(postgres), data)
        assert not runs(int(nats_pid), f"{home}/nats.conf")
        assert not Path(home).exists()
        assert next_session.postgres_url != servers.postgres_url
    assert servers.make_stream().name  # a living session's servers are left alone
