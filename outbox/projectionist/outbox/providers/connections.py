"""The connections of one provider: to checked addresses alone, and idle ones at hand.

httpcore's own pool looks at all its connections before and after each request, which at a hundred of them takes longer
than the request. Here a sender bounds how many there are, and a request looks at one.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import anyio
import httpcore

from projectionist.outbox.providers.egress import Egress, Target

IDLE_S = 5.0
"""How long an idle connection is kept; a server that closes them must not be met in the act."""
_Origin = tuple[str, str, int]


class _PinnedBackend(httpcore.AsyncNetworkBackend):
    """Connects to addresses the egress rules have checked; TLS above it still verifies the name."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in await self._egress.addresses(host, port):
            try:
                return await self._inner.connect_tcp(
                    address, port, timeout, local_address=local_address, socket_options=socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class Connections:
    """Kept by host name, so that two names at one address never share a TLS session. `keep`: keep idle ones."""

    def __init__(self, egress: Egress, *, keep: bool, ca_file: str = "") -> None:
        self._keep = keep
        self._context = ssl.create_default_context(cafile=ca_file or None)
        self._backend = _PinnedBackend(egress)
        self._idle: dict[_Origin, deque[httpcore.AsyncHTTPConnection]] = {}
        self._closed = False

    @asynccontextmanager
    async def one(self, target: Target) -> AsyncIterator[httpcore.AsyncHTTPConnection]:
        """A connection of the caller's own for one request; it connects with the request where none is idle."""
        origin = (target.scheme, target.host, target.port)
        connection = await self._ready(origin) or self._new(origin)
        try:
            yield connection
        finally:
            with anyio.CancelScope(shield=True):
                await self._give_back(origin, connection)

    async def close(self) -> None:
        """Close those that are idle, and each of the others when it is given back."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            for idle in self._idle.values():
                while idle:
                    await idle.pop().aclose()

    async def _ready(self, origin: _Origin) -> httpcore.AsyncHTTPConnection | None:
        """The one used last that can still be used: what the server has closed, or what is old, is thrown away."""
        idle = self._idle.get(origin, deque())
        while idle:
            connection = idle.pop()
            if connection.is_idle() and not connection.has_expired():
                return connection
            await connection.aclose()
        return None

    def _new(self, origin: _Origin) -> httpcore.AsyncHTTPConnection:
        scheme, host, port = origin
        return httpcore.AsyncHTTPConnection(
            httpcore.Origin(scheme.encode(), host.encode(), port),
            ssl_context=self._context,
            keepalive_expiry=IDLE_S,
            network_backend=self._backend,
        )

    async def _give_back(self, origin: _Origin, connection: httpcore.AsyncHTTPConnection) -> None:
        if connection.is_closed():
            return
        if self._closed or not (self._keep and connection.is_idle()):
            await connection.aclose()
            return
        idle = self._idle.setdefault(origin, deque())
        idle.append(connection)
        while idle and idle[0].has_expired():
            await idle.popleft().aclose()
