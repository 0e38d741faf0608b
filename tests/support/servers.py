"""Both embedded servers for one test session, a migrated template database, streams."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import asyncpg
import msgspec
from anyio.from_thread import BlockingPortal, start_blocking_portal
from nats.aio.client import Client
from nats.js.errors import NotFoundError
from tests.support.peers import patient

from projectionist import migrations
from projectionist.core.postgres.connections import Connection
from projectionist.ops.embedded import temporary

SCHEMA = "projectionist"
_TEMPLATE = "lab_template"


class Stream(msgspec.Struct, frozen=True):
    """A JetStream stream of one test: its name, and the subjects it takes, `<name>.>`."""

    name: str

    @property
    def subjects(self) -> str:
        """The one wildcard subject of the stream."""
        return f"{self.name}.>"

    def subject(self, *tokens: str) -> str:
        """A subject that this stream takes."""
        return ".".join((self.name, *tokens))


class Servers:
    """Servers with fsync and full-page writes off: they survive `kill -9`, the machine need not.

    All methods block, so that tests of either kind can call them; they have an event loop of their own.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._numbers = itertools.count(1)
        self._connection: Connection | None = None
        self._client: Client | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._servers = stack.enter_context(temporary(durable=False))
            self._addresses = self._servers.up()
            self._portal: BlockingPortal = stack.enter_context(start_blocking_portal())
            stack.callback(self._portal.call, self._disconnect)
            self._portal.call(self._make_template)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def postgres_url(self) -> str:
        """The URL of the server's own database; tests use the `database` fixture."""
        return self._addresses.postgres_url

    @property
    def nats_url(self) -> str:
        """The URL of the NATS server."""
        return self._addresses.nats_url

    def up(self) -> None:
        """Start what a test has killed. Both keep their ports."""
        if not (self._servers.postgres.pid() and self._servers.nats.pid()):
            self._addresses = self._servers.up()

    def kill_postgres(self) -> None:
        """`kill -9` PostgreSQL; every session ends, what is committed stays."""
        os.kill(self._servers.postgres.pid(), signal.SIGKILL)

    def kill_nats(self) -> None:
        """`kill -9` the NATS server; what the system has taken from it stays."""
        os.kill(self._servers.nats.pid(), signal.SIGKILL)

    @contextmanager
    def nats_stopped(self) -> Iterator[None]:
        """The NATS server takes connections and answers nothing, as a machine does that hangs."""
        pid = self._servers.nats.pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def make_database(self) -> str:
        """The URL of a new database, migrated."""
        self.up()
        name = f"test_{next(self._numbers)}"
        self._portal.call(self._execute, f"create database {name} template {_TEMPLATE} strategy file_copy")
        return self._url_of(name)

    def drop_database(self, url: str) -> None:
        """Drop it, whoever is still connected."""
        self.up()
        self._portal.call(self._execute, f"drop database {urlsplit(url).path[1:]} with (force)")

    def make_stream(self) -> Stream:
        """A new stream that keeps everything, as a user would make it."""
        self.up()
        stream = Stream(f"TEST_{next(self._numbers)}")
        self._portal.call(self._add_stream, stream)
        return stream

    def delete_stream(self, stream: Stream) -> None:
        """Delete it, if the test has not."""
        self.up()
        self._portal.call(self._delete_stream, stream)

    def _url_of(self, database: str) -> str:
        return urlsplit(self.postgres_url)._replace(path=f"/{database}").geturl()

    async def _make_template(self) -> None:
        await self._execute(f"create database {_TEMPLATE}")
        connection = await asyncpg.connect(self._url_of(_TEMPLATE))
        try:
            await migrations.migrate(connection, SCHEMA)
        finally:
            await connection.close()

    async def _execute(self, statement: str) -> None:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(self.postgres_url)
        await self._connection.execute(statement)

    async def _nats(self) -> Client:
        if self._client is None:
            self._client = await patient(
                self.nats_url, max_reconnect_attempts=-1, reconnect_time_wait=0.05, error_cb=_expected
            )
        return self._client

    async def _add_stream(self, stream: Stream) -> None:
        await (await self._nats()).jetstream().add_stream(name=stream.name, subjects=[stream.subjects])

    async def _delete_stream(self, stream: Stream) -> None:
        with suppress(NotFoundError):
            await (await self._nats()).jetstream().delete_stream(stream.name)

    async def _disconnect(self) -> None:
        if self._client is not None:
            await self._client.close()
        if self._connection is not None:
            self._connection.terminate()


async def _expected(_: Exception) -> None:
    """Tests kill the server; the client's complaints about it are no news."""
