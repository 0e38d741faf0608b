"""A session of PostgreSQL as our protocol needs it: one back end for as long as it lasts, with our settings in force.

Settings are set after connecting, since poolers refuse or drop most of those that come with the greeting, and read
back: a pooler that lends a back end for one transaction keeps neither locks, settings nor prepared statements.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
import asyncpg

from projectionist.core.postgres.statements import Statements

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection

    _Plain = asyncpg.Connection[asyncpg.Record]
else:
    _Plain = asyncpg.Connection

ROUNDS = 5
"""How often two connections are asked in turn for their back ends: one of them may be lucky once."""
SECOND_WITHIN_S = 2.0
"""How long a second connection is waited for. A pool that has none to spare gives each back end to one alone."""

_SQL = Statements("projectionist.core", "projectionist")


class BackendShared(Exception):
    """The back end behind a connection is not its own."""


class ServerSession(_Plain):
    """A connection that knows its back end, keeps its settings, and notices a server that vanished."""

    settings: Mapping[str, str]
    _backend: int | None = None

    def __init__(self, protocol: Any, transport: Any, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        watch(transport.get_extra_info("socket"))

    def get_server_pid(self) -> int:
        """Return the process that PostgreSQL knows the session by; a pooler's greeting names another."""
        return self.greeted if self._backend is None else self._backend

    @property
    def greeted(self) -> int:
        """Return the process that whoever answered the connection has named."""
        return super().get_server_pid()

    async def reset(self, *, timeout: float | None = None) -> None:
        """Forget what a borrower has changed, and put our settings in force again."""
        if self.is_in_transaction():
            # A scope that is cancelled cuts the ROLLBACK off too, and the driver would tell what is left as an error.
            await self.execute("rollback", timeout=timeout)
        await super().reset(timeout=timeout)
        await self.fetch(_SQL["apply_session_settings"], json.dumps(self.settings), timeout=timeout)

    async def begin(
        self, settings: Mapping[str, str], another: Callable[[], Awaitable[ServerSession]]
    ) -> None:
        """Put settings in force; raises Shared if they do not stay, or if the session is not this connection's own.

        `another` opens a second connection of the same kind, for comparison where a pooler stands between.
        """
        self.settings = settings
        try:
            # Asked before anything is set: what is set in a session that is lent stays for its next borrower.
            self._backend = await self.backend()
            if self._backend != self.greeted:
                await self._compare(another)
            put = await self.fetch(_SQL["apply_session_settings"], json.dumps(settings))
            shown = await self.fetch(_SQL["select_session_settings"], list(settings))
            if put != shown or put[0]["backend"] != self._backend:
                raise BackendShared
        except (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError) as error:
            raise BackendShared from error

    async def _compare(self, another: Callable[[], Awaitable[ServerSession]]) -> None:
        """Raise Shared if two connections that are open at once have ever one back end."""
        with anyio.move_on_after(SECOND_WITHIN_S):
            try:
                second = await another()
            except (OSError, asyncpg.PostgresError):  # full
                return
            try:
                for _ in range(ROUNDS):
                    ours, others = await self.backend(), await second.backend()
                    if ours != self._backend or others == self._backend:
                        raise BackendShared
            finally:
                second.terminate()

    async def backend(self) -> int:
        """Return the back end that answers now."""
        return int(await self.fetchval(_SQL["select_backend"]))


def is_pooled(connection: Connection) -> bool:
    """Return whether a pooler stands between: the session that answers is not the one that was greeted."""
    return isinstance(connection, ServerSession) and connection.greeted != connection.get_server_pid()


def watch(connected: socket.socket) -> None:
    """Have the system probe a silent peer, so that a read from a vanished one ends after a minute."""
    if connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
