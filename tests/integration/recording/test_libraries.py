"""Events recorded in the transaction of each library: with its commit, gone with its rollback."""

from __future__ import annotations

import contextlib
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from tests.support.django_connection import django_connection
from tests.support.recording import CartOpened, CartPaid, RecordingApp
from tests.support.servers import Servers, Stream

from projectionist.core.settings.secret import Url
from projectionist.outbox import OutboxError
from projectionist.outbox.recording.recorded import Recorded, VersionConflict

RECORDED = "select string_agg(id, ' ' order by seq) from projectionist.intents"
CLOSED = "no transaction is open"


@pytest.fixture
def cart(servers: Servers, database: str, stream: Stream) -> RecordingApp:
    return RecordingApp(servers, database, stream)


def url(cart: RecordingApp, driver: str) -> str:
    given = cart.settings.postgres.url
    assert isinstance(given, Url)
    return given.reveal().replace("postgresql://", f"postgresql+{driver}://", 1)


def plain(cart: RecordingApp) -> str:
    return url(cart, "x").replace("+x", "")


def recorded(cart: RecordingApp) -> str | None:
    """What is there, as a connection of its own sees it."""
    with psycopg.connect(plain(cart)) as connection:
        row = connection.execute(RECORDED).fetchone()
    assert row is not None
    return row[0] if row[0] is None else str(row[0])


class TestAwaited:
    """`await app.outbox(connection).record(…)`."""

    async def story(self, cart: RecordingApp, connection: Any) -> None:
        """Record, conflict, record, in one transaction that is open."""
        recorder = cart.app.outbox(connection)
        first = await recorder.record("cart/1", CartOpened("ann"), CartPaid(1), expected_version=0)
        assert isinstance(first, Recorded)
        with pytest.raises(VersionConflict) as raised:
            await recorder.record("cart/1", CartPaid(2), expected_version=1)
        assert raised.value.actual == 2
        assert (await recorder.record("cart/1", CartPaid(1), expected_version=2)).version == 3

    async def refused(self, cart: RecordingApp, connection: Any) -> None:
        with pytest.raises(OutboxError, match=CLOSED):
            await cart.app.outbox(connection).record("cart/1", CartOpened("ann"), expected_version=0)
        assert recorded(cart) is None

    @pytest.mark.asyncio
    @pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
    async def test_sqlalchemy_connection(self, cart: RecordingApp, driver: str) -> None:
        engine = create_async_engine(url(cart, driver))
        try:
            async with engine.connect() as connection:
                await self.refused(cart, connection)
                # It begins lazily: here the driver has no transaction yet, and gets one.
                await connection.begin()
                await self.story(cart, connection)
                await connection.rollback()
            assert recorded(cart) is None
            async with engine.connect() as connection:
                await connection.execution_options(isolation_level="AUTOCOMMIT")
                await connection.begin()
                await self.refused(cart, connection)
            async with engine.begin() as connection:
                await self.story(cart, connection)
        finally:
            await engine.dispose()
        assert recorded(cart) == "cart/1:1 cart/1:2 cart/1:3"

    @pytest.mark.asyncio
    @pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
    async def test_sqlalchemy_session(self, cart: RecordingApp, driver: str) -> None:
        engine = create_async_engine(url(cart, driver))
        try:
            async with AsyncSession(engine) as session:
                await self.refused(cart, session)
                await session.execute(text("select 1"))
                await self.story(cart, session)
                await session.rollback()
                await self.refused(cart, session)
            async with AsyncSession(engine) as session, session.begin(), session.begin_nested():
                await self.story(cart, session)
            automatic = engine.execution_options(isolation_level="AUTOCOMMIT")
            async with AsyncSession(automatic) as session, session.begin():
                with pytest.raises(OutboxError, match="AUTOCOMMIT"):
                    await cart.app.outbox(session).record("cart/2", CartPaid(1), expected_version=0)
        finally:
            await engine.dispose()
        assert recorded(cart) == "cart/1:1 cart/1:2 cart/1:3"

    @pytest.mark.asyncio
    async def test_psycopg(self, cart: RecordingApp) -> None:
        plain = url(cart, "x").replace("+x", "")
        async with await psycopg.AsyncConnection.connect(plain, row_factory=dict_row) as connection:
            await self.refused(cart, connection)
            await connection.execute("select 1")
            await self.story(cart, connection)
            await connection.rollback()
            assert recorded(cart) is None
            await connection.set_autocommit(True)
            await self.refused(cart, connection)
            async with connection.transaction():
                await self.story(cart, connection)
            assert recorded(cart) == "cart/1:1 cart/1:2 cart/1:3"


class TestBlocking:
    """`app.outbox(connection).record(…)`."""

    def story(self, cart: RecordingApp, connection: Any) -> None:
        recorder = cart.app.outbox(connection)
        first = recorder.record("cart/1", CartOpened("ann"), CartPaid(1), expected_version=0)
        assert isinstance(first, Recorded)
        with pytest.raises(VersionConflict) as raised:
            recorder.record("cart/1", CartPaid(2), expected_version=1)
        assert raised.value.actual == 2
        assert recorder.record("cart/1", CartPaid(1), expected_version=2).version == 3

    def refused(self, cart: RecordingApp, connection: Any) -> None:
        with pytest.raises(OutboxError, match=CLOSED):
            cart.app.outbox(connection).record("cart/1", CartOpened("ann"), expected_version=0)
        assert recorded(cart) is None

    @pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
    def test_sqlalchemy(self, cart: RecordingApp, driver: str) -> None:
        engine = create_engine(url(cart, driver))
        try:
            with Session(engine) as session:
                self.refused(cart, session)
                session.begin()
                self.story(cart, session)
                session.rollback()
                assert recorded(cart) is None
            with engine.connect() as connection:
                self.refused(cart, connection)
            with engine.begin() as connection:
                self.story(cart, connection)
            automatic = engine.execution_options(isolation_level="AUTOCOMMIT")
            with automatic.begin() as connection, pytest.raises(OutboxError, match="AUTOCOMMIT"):
                cart.app.outbox(connection).record("cart/2", CartPaid(1), expected_version=0)
        finally:
            engine.dispose()
        assert recorded(cart) == "cart/1:1 cart/1:2 cart/1:3"

    def test_psycopg(self, cart: RecordingApp) -> None:
        with psycopg.connect(plain(cart), row_factory=dict_row) as connection:
            self.refused(cart, connection)
            with connection.transaction(force_rollback=True):
                self.story(cart, connection)
            assert recorded(cart) is None
            with connection.transaction():
                self.story(cart, connection)
        assert recorded(cart) == "cart/1:1 cart/1:2 cart/1:3"

    @pytest.mark.parametrize("bound", [False, True], ids=["client", "server"])
    def test_django(self, cart: RecordingApp, bound: bool) -> None:
        with django_connection(plain(cart), server_side_binding=bound) as (connection, transaction):
            connection.force_debug_cursor = bound  # it formats each statement for its log
            self.refused(cart, connection)
            with transaction.atomic():
                self.story(cart, connection)
                transaction.set_rollback(True)
            assert recorded(cart) is None
            with transaction.atomic(), transaction.atomic():
                self.story(cart, connection)
        assert recorded(cart) == "cart/1:1 cart/1:2 cart/1:3"

    def test_django_loses_what_was_recorded_in_a_savepoint_that_is_undone(self, cart: RecordingApp) -> None:
        with django_connection(plain(cart)) as (connection, transaction), transaction.atomic():
            outbox = cart.app.outbox(connection)
            outbox.record("cart/1", CartOpened("ann"), expected_version=0)
            with transaction.atomic():
                outbox.record("cart/1", CartPaid(7), expected_version=1)
                transaction.set_rollback(True)
            with pytest.raises(VersionConflict) as conflict, transaction.atomic():
                outbox.record("cart/1", CartPaid(7), expected_version=2)
            assert conflict.value.actual == 1
            outbox.record("cart/1", CartPaid(8), expected_version=1)
        assert recorded(cart) == "cart/1:1 cart/1:2"

    def test_django_records_nothing_in_a_transaction_that_has_failed(self, cart: RecordingApp) -> None:
        with django_connection(plain(cart)) as (connection, transaction), transaction.atomic():
            with contextlib.suppress(Exception), connection.cursor() as cursor:
                cursor.execute("select 1 / 0")
            with pytest.raises(Exception, match="transaction is aborted"):
                cart.app.outbox(connection).record("cart/1", CartOpened("ann"), expected_version=0)
            transaction.set_rollback(True)
        assert recorded(cart) is None


@pytest.mark.parametrize("wrong", [object(), "postgresql://", create_engine("postgresql+psycopg://")])
def test_what_is_no_connection_is_refused(wrong: object, cart: RecordingApp) -> None:
    with pytest.raises(OutboxError, match=r"takes the connection on which .* and got a"):
        cart.app.outbox(wrong)
