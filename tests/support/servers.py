"""Both embedded servers for one test session, a migrated template database, streams."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import asyncpg
import msgspec
from nats.aio.client import Client
from nats.js.errors import NotFoundError
from tests.support.peers import patient
from tests.support.standstill import standing_still
from tests.support.waiting import HANG_S

from projectionist.ops.embedded.nats import NatsServer
from projectionist.ops.embedded.postgres import PostgresServer
from projectionist.ops.embedded.processes import until
from projectionist.testing.servers import SCHEMA, TEMPLATE, SessionServers

__all__ = ["SCHEMA", "Servers", "Stream", "own_ground"]

_ONE = threading.Lock()
"""Databases are made and dropped one at a time, and meanwhile whoever shares the loop goes on."""


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


class Servers(SessionServers):
    """The servers that users' tests have too, which a test here may kill, with streams for each test."""

    def __init__(self) -> None:
        super().__init__()
        self._client: Client | None = None

    def kill_postgres(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End PostgreSQL, as `kill -9` or (SIGQUIT) `pg_ctl stop -m immediate` do; what is committed stays."""
        _kill(self._servers.postgres, how)

    def kill_nats(self) -> None:
        """`kill -9` the NATS server; what the system has taken from it stays."""
        _kill(self._servers.nats)

    @contextmanager
    def nats_stopped(self) -> Iterator[None]:
        """The NATS server takes connections and answers nothing, as a machine does that hangs."""
        with standing_still(self._servers.nats.pid()):
            yield

    def make_stream(self) -> Stream:
        """A new stream that keeps everything, as a user would make it."""
        self.up()
        stream = Stream(f"TEST_{next(self._numbers)}")
        self.portal.call(self._add_stream, stream)
        return stream

    def delete_stream(self, stream: Stream) -> None:
        """Delete it, if the test has not."""
        self.up()
        self.portal.call(self._delete_stream, stream)

    async def _make_template(self) -> None:
        """Number views from 1001, so that no test takes a consumer's number for its view's."""
        await super()._make_template()
        connection = await asyncpg.connect(self._url_of(TEMPLATE))
        try:
            await connection.execute(f"alter table {SCHEMA}.views alter number restart with 1001")
        finally:
            await connection.close()

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
        await super()._disconnect()


async def _expected(_: Exception) -> None:
    """Tests kill the server; the client's complaints about it are no news."""


def _kill(server: NatsServer | PostgresServer, how: signal.Signals = signal.SIGKILL) -> None:
    """Return when it is dead: until then whoever starts what does not run has nothing to do."""
    os.kill(server.pid(), how)
    assert until(lambda: not server.pid(), HANG_S), f"{server.mark} goes on"


@asynccontextmanager
async def own_ground(servers: Servers) -> AsyncIterator[tuple[str, Stream]]:
    """A database and a stream, beside those of others in the same event loop."""
    database, stream = await asyncio.to_thread(_make, servers)
    try:
        yield database, stream
    finally:
        await asyncio.to_thread(_drop, servers, database, stream)


def _make(servers: Servers) -> tuple[str, Stream]:
    with _ONE:
        return servers.make_database(), servers.make_stream()


def _drop(servers: Servers, database: str, stream: Stream) -> None:
    with _ONE:
        servers.drop_database(database)
        servers.delete_stream(stream)
