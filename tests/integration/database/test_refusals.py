"""A PostgreSQL that answers and cannot: no connection left, no room on its disk, transactions that collide."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.gateway import Gateway, gateway
from tests.support.load import Load, flowing, tuned
from tests.support.process import projectionist
from tests.support.servers import SCHEMA
from tests.support.shop import shop
from tests.support.waiting import HANG_S, Heard, cancelled, listening, silent_for

pytestmark = pytest.mark.asyncio


@asynccontextmanager
async def ordinary(harness: ConsumerHarness) -> AsyncIterator[str]:
    """The database's URL for a role that is no superuser: those are held to no limit."""
    name, parts = f"ordinary_{harness.stream.name.lower()}", urlsplit(harness.database)
    database = parts.path[1:]
    await harness.pool.execute(
        f"""
        create role {name} login password 'secret' in role pg_read_all_data, pg_write_all_data, pg_signal_backend;
        grant all on schema projectionist, public to {name};
        grant all on database {database} to {name};
        """
    )
    try:
        yield parts._replace(netloc=f"{name}:secret@{parts.netloc.rpartition('@')[2]}").geturl()
    finally:
        await harness.pool.execute(
            f"select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = '{name}'"
        )
        await harness.pool.execute(f"drop owned by {name}; drop role {name}")


@asynccontextmanager
async def limited(harness: ConsumerHarness, url: str, what: str) -> AsyncIterator[None]:
    """No further connection for the role, or to the database."""
    name = urlsplit(url).username if what == "role" else urlsplit(url).path[1:]
    await harness.pool.execute(f"alter {what} {name} connection limit 0")
    try:
        yield
    finally:
        await harness.pool.execute(f"alter {what} {name} connection limit -1")


@asynccontextmanager
async def full(url: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """No further connection to the server, but for superusers, until what is yielded is called."""
    held: list[asyncpg.Connection[asyncpg.Record]] = []
    refused = asyncio.Event()

    async def fill() -> None:
        while True:
            try:
                held.append(await asyncpg.connect(url))
            except asyncpg.TooManyConnectionsError:
                refused.set()
                await asyncio.sleep(0.02)  # what others give up is taken too

    async def release() -> None:
        await cancelled(filling)
        for connection in held:
            connection.terminate()

    filling = asyncio.create_task(fill())
    try:
        await asyncio.wait_for(refused.wait(), HANG_S)
        yield release
    finally:
        await release()


@pytest.mark.parametrize("what", ["role", "database"])
async def test_a_postgresql_without_spare_connections_is_tried_once_a_second_and_told_once(
    live: ConsumerHarness, told: list[str], what: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    async with ordinary(live) as url, gateway(url) as gate:
        tuned(live, url=gate.url)
        async with live.running(s.Orders, s.Spend):
            with listening() as heard:
                async with flowing(load):
                    await heard.wait("batch.acked", 10)
                    async with limited(live, url, what):
                        gate.cut()
                        await heard.wait("postgres.reach.ill")
                        await stands_still(heard, gate)
                        attempts, begun = gate.attempts, time.monotonic()
                        await silent_for(heard, "batch.acked", 3)
                        assert gate.attempts - attempts <= time.monotonic() - begun + 4
                    await heard.wait("postgres.reach.well")
                await live.settled(s.Orders, s.Spend)

    lines = [line for line in told if "PostgreSQL" in line]
    assert len(lines) == 2, told
    # One that was being opened when all were cut off says so instead.
    assert "too many connections" in lines[0] or "connection was closed" in lines[0]
    await load.check()
    assert await live.failed_tries() == 0


async def stands_still(heard: Heard, gate: Gateway) -> None:
    """Return when nothing arrives any more; a session that was being opened when all were cut is cut, too."""
    acked = -1
    while acked != heard.counts["batch.acked"]:
        acked = heard.counts["batch.acked"]
        gate.cut()
        await asyncio.sleep(1)


async def test_a_process_that_starts_while_the_server_is_full_waits_for_a_place(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(5)
    async with ordinary(live) as url, full(url) as release:
        addresses = {"PROJECTIONIST_POSTGRES__URL": url, "PROJECTIONIST_NATS__URL": live.servers.nats_url}
        async with projectionist(
            "run", "tests.support.parking_shop:app", env={**addresses, "HELD_STREAM": live.stream.name}
        ) as child:
            await child.heard("postgres.reach.ill")
            await release()
            await child.heard("worker.running", 2)
            await live.settled(s.Orders, s.Spend)
            child.signal(signal.SIGTERM)
            ended = await child.ended()

    assert ended.code == 0
    assert "remaining connection slots are reserved" in ended.err or "too many clients" in ended.err
    await load.check()


@contextmanager
def small_disk(harness: ConsumerHarness) -> Iterator[Path]:
    """A folder with room for a few megabytes, which the server may use."""
    account = harness.servers._servers.postgres.account
    folder = Path(tempfile.mkdtemp(dir=harness.servers._servers.home))
    options = f"size=4m,mode=700,uid={account.uid},gid={account.gid}"
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=False).returncode
    ):
        pytest.skip("a small disk has to be mounted, and this user may not")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


async def test_a_full_disk_is_waited_for_and_costs_no_attempt(live: ConsumerHarness, told: list[str]) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    with small_disk(live) as folder:
        await live.pool.execute(f"create tablespace small_{live.stream.name} location '{folder}'")
        space = f"small_{live.stream.name}"
        await live.pool.execute(f"alter table {SCHEMA}.inbox set tablespace {space}")
        async with live.running(s.Orders, s.Spend):
            with listening() as heard:
                await load.more(5)
                await live.settled(s.Orders, s.Spend)
                await live.pool.execute(f"create table filler (x text) tablespace {space}")
                with pytest.raises(asyncpg.DiskFullError):
                    await live.pool.execute(
                        "insert into filler select repeat(md5(n::text), 100) from generate_series(1, 100000) n"
                    )
                async with flowing(load, every_s=0.01):
                    await heard.wait("postgres.use.ill")
                    await heard.wait(
                        "batch.outage", 6
                    )  # until then something may still fit into the last page
                    await silent_for(heard, "postgres.use.well", 3)
                    await live.pool.execute("drop table filler")
                    await live.pool.execute(
                        "checkpoint"
                    )  # only then are the files of a dropped table given back
                    await heard.wait("postgres.use.well")
                await live.settled(s.Orders, s.Spend)
        await live.pool.execute(f"alter table {SCHEMA}.inbox set tablespace pg_default")
        await live.pool.execute("checkpoint")
        await live.pool.execute(f"drop tablespace {space}")

    assert 1 <= len([line for line in told if "takes no writes" in line]) <= 3
    await load.check()
    assert await live.failed_tries() == 0


async def test_a_deadlock_with_somebody_else_costs_no_attempt(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(1)
    async with live.running(s.Orders, s.Spend):
        await live.settled(s.Orders, s.Spend)
        stranger = await live.own_connection()
        try:
            with listening() as heard:
                await stranger.execute(
                    "set deadlock_timeout = '60s'"
                )  # the other one looks first, and is ended
                async with stranger.transaction():
                    await stranger.execute(
                        f"update {SCHEMA}.spend__g1 set orders = orders where customer = 'ann'"
                    )
                    await load.more(1)
                    await live.blocked(stranger)
                    await stranger.execute(f"lock table {SCHEMA}.inbox in share mode")
                await heard.wait("session.ill")
                await live.settled(s.Orders, s.Spend)
        finally:
            await stranger.close()

    await load.check()
    assert await live.failed_tries() == 0


async def test_a_serialization_failure_costs_no_attempt(live: ConsumerHarness) -> None:
    """A row moves to another partition while a batch waits for it: 40001, whatever the isolation."""
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await live.pool.execute(
        f"""
        create table tallies (half int, n int) partition by list (half);
        create table tallies_1 partition of tallies for values in (1);
        create table tallies_2 partition of tallies for values in (2);
        insert into tallies values (1, 0);
        create function tallies() returns trigger language plpgsql as $$ begin
            update public.tallies set n = n + 1;
            return new;
        end $$;
        create trigger tallies before insert on {SCHEMA}.inbox for each row execute function tallies();
        """
    )
    stranger = await live.own_connection()
    try:
        with listening() as heard:
            async with live.running(s.Orders, s.Spend):
                async with stranger.transaction():
                    await stranger.execute("update tallies set half = 2")
                    await load.more(5)
                    await live.blocked(stranger)
                await heard.wait("batch.outage")
                await live.settled(s.Orders, s.Spend)
    finally:
        await stranger.close()

    await load.check()
    assert await live.failed_tries() == 0
    assert await live.value("select n from tallies") == await inspection.count_inbox(live)
