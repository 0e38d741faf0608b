"""A session that a pooler lends for a transaction: each says what it relies on, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from tests.support.pooler import pooler
from tests.support.servers import SCHEMA, Servers

from projectionist.core.postgres import connections
from projectionist.core.postgres.lock_probe import LockShared, refuse_weak_locks
from projectionist.core.postgres.pooled_session import PooledSession, is_lent
from projectionist.core.postgres.statements import Statements
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Postgres
from projectionist.outbox.relay.database_link import DatabaseLink

pytestmark = pytest.mark.asyncio

NAME = "projectionist 7@tag Orders"
LEFT = "select name || '=' || setting from pg_settings order by name"


def settings(url: str, database: str) -> Postgres:
    return Postgres(url=Url(url), direct_url=Url(database), schema=SCHEMA)


@asynccontextmanager
async def lent(url: str, database: str, **options: Any) -> AsyncIterator[PooledSession]:
    found = settings(url, database)
    connection = await connections.connect(found, application_name=NAME, pooled=True, **options)
    assert isinstance(connection, PooledSession)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def stranger(url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """Somebody else's application behind the same pooler."""
    connection = await asyncpg.connect(url, statement_cache_size=0)
    try:
        yield connection
    finally:
        await connection.close()


async def test_every_transaction_has_our_settings_and_the_next_borrower_none_of_them(
    servers: Servers, database: str
) -> None:
    with pooler(servers, database, "transaction", default_pool_size="1") as url:
        async with stranger(url) as other, lent(url, database) as connection:
            before = await other.fetch(LEFT)
            wanted = {**connections.SESSION, "application_name": NAME, "lock_timeout": "8s"}
            wanted["transaction_isolation"] = wanted.pop("default_transaction_isolation")
            for name in (one for one in wanted if not one.startswith("tcp_")):
                value = wanted[name]
                assert await connection.fetchval("select current_setting($1)", name) == value, name
                async with connection.transaction():
                    assert await connection.fetchval("select current_setting($1)", name) == value, name
                    await connection.execute("set local lock_timeout = '1s'")
            assert await other.fetch(LEFT) == before
            assert await other.fetchval("select count(*) from pg_prepared_statements") == 0


async def test_what_others_have_set_in_a_session_is_not_in_force_in_a_transaction(
    servers: Servers, database: str
) -> None:
    with pooler(servers, database, "transaction", default_pool_size="1") as url:
        async with stranger(url) as other, lent(url, database) as connection:
            await other.execute("set default_transaction_isolation = serializable; set search_path = public")
            assert await connection.fetchval("show transaction_isolation") == "read committed"
            assert await connection.fetchval("show search_path") == connections.SEARCH_PATH


async def test_statements_of_many_clients_do_not_meet_in_the_sessions_they_share(
    servers: Servers, database: str
) -> None:
    own = Statements("projectionist.core", SCHEMA)["select_session_settings"]
    with pooler(servers, database, "transaction", default_pool_size="2", server_round_robin="1") as url:

        async def client(number: int) -> None:
            async with lent(url, database) as connection:
                for n in range(20):
                    assert await connection.fetchval("select $1::int * 100 + $2::int", number, n) == (
                        number * 100 + n
                    )
                    assert len(await connection.fetch(own, ["jit", "timezone"])) == 2
                    await connection.executemany("select $1::int", [(1,), (2,)])

        await asyncio.gather(*map(client, range(6)))


@pytest.mark.parametrize(
    "use",
    [
        lambda connection: connection.add_listener("any", print),
        lambda connection: connection.cursor("select 1"),
        lambda connection: connection.get_server_pid(),
    ],
    ids=["listen", "cursor", "server process"],
)
async def test_what_needs_a_session_is_refused_on_one_that_is_lent(
    servers: Servers, database: str, use: Callable[[Any], Any]
) -> None:
    with pooler(servers, database, "transaction") as url:
        async with lent(url, database) as connection:
            with pytest.raises(asyncpg.InterfaceError, match="pooler"):
                await use(connection)


async def test_another_server_behind_the_pooler_ends_the_connection(servers: Servers, database: str) -> None:
    with pooler(servers, database, "transaction", server_login_retry="1") as url:
        async with lent(url, database) as connection:
            servers.kill_postgres()
            servers.up()
            with pytest.raises(asyncpg.PostgresConnectionError):
                await connection.execute("create table never ()")
            assert connection.is_closed()
        async with lent(url, database) as connection:
            assert await connection.fetchval("select to_regclass('public.never')") is None


async def test_another_database_of_the_name_ends_the_connection(servers: Servers, database: str) -> None:
    name = database.rpartition("/")[2]
    with pooler(servers, database, "transaction") as url:
        async with lent(url, database) as connection:
            admin = await asyncpg.connect(database.rpartition("/")[0] + "/postgres")
            await admin.execute(f"drop database {name} with (force)")
            await admin.execute(f"create database {name}")
            await admin.close()
            with pytest.raises(asyncpg.ConnectionDoesNotExistError, match="another server or database"):
                await connection.execute("select")


async def test_a_commit_of_what_had_failed_is_an_error(servers: Servers, database: str) -> None:
    with pooler(servers, database, "transaction") as url:
        async with lent(url, database) as connection:
            transaction = connection.transaction()
            await transaction.start()
            with pytest.raises(asyncpg.DivisionByZeroError):
                await connection.execute("select 1 / 0")
            with pytest.raises(asyncpg.InFailedSQLTransactionError, match="COMMIT"):
                await transaction.commit()


async def test_a_statement_that_is_cancelled_gives_its_session_back(servers: Servers, database: str) -> None:
    with pooler(servers, database, "transaction", default_pool_size="1") as url:
        async with lent(url, database) as connection, stranger(url) as other:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await connection.execute("select pg_sleep(600)")
            assert await other.fetchval("select 1", timeout=30) == 1


async def test_links_of_a_relay_set_their_plans_for_a_transaction_alone(
    servers: Servers, database: str
) -> None:
    with pooler(servers, database, "transaction", default_pool_size="1") as url:
        async with stranger(url) as other:
            link = DatabaseLink(settings(url, database), "relay", setup="set_stable_plans_async_commit")
            async with link.lent() as connection:
                assert is_lent(connection)
                assert await connection.fetchval("show enable_seqscan") == "off"
                assert await connection.fetchval("show synchronous_commit") == "off"
                assert await other.fetchval("show synchronous_commit") == "on"
                assert await other.fetchval("show enable_seqscan") == "on"
            await link.close()


async def test_two_urls_of_two_databases_are_refused_by_a_lock_that_one_alone_has(
    servers: Servers, database: str
) -> None:
    elsewhere = servers.make_database()
    try:
        with pooler(servers, elsewhere, "transaction") as url:
            found = settings(url, database)
            connection = await connections.connect(found, application_name="test")
            try:
                with pytest.raises(LockShared, match="granted to another") as refused:
                    await refuse_weak_locks(connection, found)
                assert "postgres.direct_url" in refused.value.remedy
            finally:
                await connection.close()
    finally:
        servers.drop_database(elsewhere)


async def test_without_a_direct_url_a_pooled_connection_is_a_session_of_its_own(database: str) -> None:
    found = Postgres(url=Url(database), schema=SCHEMA)
    connection = await connections.connect(found, application_name=NAME, pooled=True)
    try:
        assert not is_lent(connection)
        assert await connection.fetchval("show application_name") == NAME
    finally:
        await connection.close()
