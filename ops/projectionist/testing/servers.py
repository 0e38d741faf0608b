"""PostgreSQL and NATS for a session of tests: a fresh database for each test, cloned from a migrated one."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import asyncpg
from anyio.from_thread import BlockingPortal, start_blocking_portal

from projectionist import migrations
from projectionist.core.postgres.connections import Connection
from projectionist.core.settings.settings import Postgres
from projectionist.ops.embedded import temporary

SCHEMA = Postgres().schema
TEMPLATE = "template_of_tests"


class SessionServers:
    """Both servers, in a folder that goes with them. fsync is off: they survive `kill -9`, the machine need not.

    All methods block, so that tests of either kind can call them; they have an event loop of their own.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._numbers = itertools.count(1)
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._servers = stack.enter_context(temporary(durable=False))
            self._addresses = self._servers.up()
            self.portal: BlockingPortal = stack.enter_context(start_blocking_portal())
            stack.callback(self.portal.call, self._disconnect)
            self.portal.call(self._make_template)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def postgres_url(self) -> str:
        """Return the URL of the server's own database; tests have databases of their own."""
        return self._addresses.postgres_url

    @property
    def nats_url(self) -> str:
        """Return the URL of the NATS server."""
        return self._addresses.nats_url

    def up(self) -> None:
        """Start what a test has killed. Both keep their ports."""
        if not (self._servers.postgres.pid() and self._servers.nats.pid()):
            self._addresses = self._servers.up()

    def make_database(self) -> str:
        """Return the URL of a new database, migrated."""
        self.up()
        name = f"test_{next(self._numbers)}"
        self.portal.call(self._execute, f"create database {name} template {TEMPLATE} strategy file_copy")
        return self._url_of(name)

    def drop_database(self, url: str) -> None:
        """Drop it, whoever is still connected."""
        self.up()
        self.portal.call(self._execute, f"drop database {urlsplit(url).path[1:]} with (force)")

    def _url_of(self, database: str) -> str:
        return urlsplit(self.postgres_url)._replace(path=f"/{database}").geturl()

    async def _make_template(self) -> None:
        await self._execute(f"create database {TEMPLATE}")
        connection = await asyncpg.connect(self._url_of(TEMPLATE))
        try:
            await migrations.migrate(connection, SCHEMA)
        finally:
            await connection.close()

    async def _execute(self, statement: str) -> None:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(self.postgres_url)
        await self._connection.execute(statement)

    async def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
