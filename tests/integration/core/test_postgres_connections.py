"""Connections to a real PostgreSQL: what is set on them, and what a refusal says."""

from __future__ import annotations

import socket
from collections.abc import Callable
from urllib.parse import SplitResult, urlsplit

import anyio
import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import projectionist
from tests.support.shop_app import APP, environment
from tests.support.waiting import comes_true, eventually

from projectionist.core.errors import ProjectionistError, SettingsError
from projectionist.core.postgres import connections, sessions
from projectionist.core.postgres.connections import DatabaseRefusedError, DatabaseUnreachableError
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Postgres

pytestmark = pytest.mark.asyncio

CANARY = "c4n4ry"

Changed = Callable[[SplitResult], SplitResult]


def with_user(user: str) -> Changed:
    return lambda parts: parts._replace(netloc=f"{user}@{parts.netloc.rpartition('@')[2]}")


def with_database(name: str) -> Changed:
    return lambda parts: parts._replace(path=f"/{name}")


async def test_a_connection_has_our_limits_and_name(database: str) -> None:
    connection = await connections.connect(Postgres(url=Url(database)), application_name="projectionist test")
    try:
        for name, value in {**connections.SESSION, "application_name": "projectionist test"}.items():
            shown = await connection.fetchval("select current_setting($1)", name)
            assert shown == value, name
    finally:
        await connection.close()


async def test_the_limits_outlast_the_reset_of_a_pool(database: str) -> None:
    pool = await connections.pool(Postgres(url=Url(database)), application_name="projectionist test", most=1)
    async with pool:
        for _ in range(2):
            async with pool.acquire() as connection:
                assert await connection.fetchval("show lock_timeout") == "8s"
                await connection.execute("set lock_timeout = '1s'")


async def test_a_transaction_that_is_cut_off_is_rolled_back_without_a_word(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A scope cancels whatever its task awaits, the ROLLBACK too: what is stopped leaves that to the pool."""
    pool = await connections.pool(Postgres(url=Url(database)), application_name="projectionist test", most=2)

    async def wait_for_lock() -> None:
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute("create table public.left_open ()")
            await connection.execute("select pg_advisory_xact_lock(77)")

    async with pool, pool.acquire() as holder, anyio.create_task_group() as tasks:
        await holder.execute("select pg_advisory_lock(77)")
        tasks.start_soon(wait_for_lock)
        await eventually(
            lambda: holder.fetchval("select true from pg_locks where objid = 77 and not granted")
        )
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await comes_true(lambda: pool.get_idle_size() == 1)
            async with pool.acquire() as again:
                assert not again.is_in_transaction()
                assert await again.fetchval("select to_regclass('public.left_open')") is None

    assert caplog.records == []


async def test_the_system_probes_a_silent_server(monkeypatch: pytest.MonkeyPatch, database: str) -> None:
    seen: list[socket.socket] = []
    watch = sessions.watch

    def recorded(connected: socket.socket) -> None:
        watch(connected)
        seen.append(connected)

    monkeypatch.setattr(sessions, "watch", recorded)
    connection = await connections.connect(Postgres(url=Url(database)), application_name="test")
    try:
        assert seen[0].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("changed", "error", "told"),
    [
        (
            with_database("absent"),
            DatabaseRefusedError,
            r'database "absent" does not exist.*Create the database',
        ),
        (with_user(f"nobody:{CANARY}"), DatabaseRefusedError, r"refuses user or password.*postgres\.url"),
        (with_user(f"u:{CANARY}@h:x"), SettingsError, r"postgres\.url cannot be read.*%40"),
    ],
    ids=["no such database", "wrong password", "password not escaped"],
)
async def test_a_server_that_says_no_is_quoted_without_the_password(
    database: str, changed: Changed, error: type[ProjectionistError], told: str
) -> None:
    parts = urlsplit(database)
    with pytest.raises(error, match=told) as refused:
        await connections.connect(Postgres(url=Url(changed(parts).geturl())), application_name="test")
    said = f"{refused.value} {refused.value!r}"
    assert CANARY not in said
    assert f"{parts.username}:{parts.password}" not in said
    assert refused.value.__suppress_context__


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"postgresql://u:{CANARY}@127.0.0.1:{closed.getsockname()[1]}/db"
        with pytest.raises(
            DatabaseUnreachableError, match=r"\*\*\*@127.*cannot be reached.*host and port"
        ) as refused:
            await connections.connect(Postgres(url=Url(url)), application_name="test")
    assert CANARY not in str(refused.value)


async def test_a_server_that_does_not_answer_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://127.0.0.1:{silent.getsockname()[1]}/db"
        with pytest.raises(DatabaseUnreachableError, match=r"does not answer within 0\.05 s"):
            await connections.connect(Postgres(url=Url(url)), application_name="test", within_s=0.05)


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_database_that_cannot_hold_every_text_is_refused_wherever_it_is_opened(
    live: ConsumerHarness, encoding: str
) -> None:
    name = f"narrow_{encoding.lower()}"
    await live.pool.execute(f"create database {name} encoding '{encoding}' locale 'C' template template0")
    url = with_database(name)(urlsplit(live.database)).geturl()
    told = rf"encoded in {encoding}, which cannot hold every text.*encoding 'UTF8'"
    try:
        with pytest.raises(DatabaseRefusedError, match=told):
            await connections.connect(Postgres(url=Url(url)), application_name="test")
        with pytest.raises(DatabaseRefusedError, match=told):
            await connections.pool(Postgres(url=Url(url)), application_name="test", most=1)
        given = {**environment(live), "PROJECTIONIST_POSTGRES__URL": url}
        for words in (
            ["migrate"],
            ["run", APP],
            ["relay", "tests.support.relay_app:events"],
            ["doctor", APP],
        ):
            async with projectionist(*words, env=given) as child:
                ended = await child.ended()
            assert ended.code in (1, 3), words
            assert f"encoded in {encoding}" in ended.out + ended.err, words
    finally:
        await live.pool.execute(f"drop database {name} with (force)")


async def test_without_a_url_the_ways_to_set_one_are_named() -> None:
    with pytest.raises(SettingsError, match=r"PROJECTIONIST_POSTGRES__URL.*projectionist dev up"):
        await connections.connect(Postgres(), application_name="test")


async def test_a_server_that_is_full_is_unreachable_for_now(database: str) -> None:
    admin = await connections.connect(Postgres(url=Url(database)), application_name="test")
    try:
        await admin.execute(f'alter database "{urlsplit(database).path[1:]}" connection limit 0')
        await admin.execute("create role guest login password 'guest'")
        url = with_user("guest:guest")(urlsplit(database)).geturl()
        with pytest.raises(DatabaseUnreachableError, match=r"too many connections.*try again"):
            await connections.connect(Postgres(url=Url(url)), application_name="test")
    finally:
        await admin.execute("drop role guest")
        await admin.close()


async def test_a_server_without_tls_is_refused_where_tls_is_asked_for(database: str) -> None:
    with pytest.raises(DatabaseRefusedError, match=r"offers no TLS.*postgres\.tls"):
        await connections.connect(Postgres(url=Url(database), tls="require"), application_name="test")


async def test_advisory_keys_differ_by_schema_and_name_and_fit_a_bigint() -> None:
    pairs = [("a", "bc"), ("ab", "c"), ("a", "b"), ("1:a", "b"), ("projectionist", "migrate")]
    keys = {connections.advisory_key(*pair) for pair in pairs}
    assert len(keys) == len(pairs)
    assert all(-(2**63) <= key < 2**63 for key in keys)
    assert connections.advisory_key("projectionist", "migrate") == 1930327036770506498, (
        "a changed key lets two in at once"
    )
