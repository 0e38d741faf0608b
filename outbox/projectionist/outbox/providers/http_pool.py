"""The connections of one provider: to checked addresses alone, and idle ones at hand.

httpcore's own pool looks at all its connections before and after each request, which at a hundred of them takes longer
than the request. Here a sender bounds how many there are, and a request looks at one.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpcore

from projectionist.outbox.providers.egress import Egress, Target

IDLE_S = 5.0
"""How long an idle connection is kept; a server that closes them must not be met in the act."""
_Origin = tuple[str, str, int]


class HttpConnection:
    """A connection to one origin. `leaving` is called before any byte of a request is handed to the socket, and may
    raise to keep it here."""

    def __init__(self, egress: Egress, context: ssl.SSLContext, origin: _Origin, idle_s: float) -> None:
        scheme, host, port = origin
        self.leaving: Callable[[], None] = _ignore
        self.http = httpcore.AsyncHTTPConnection(
            httpcore.Origin(scheme.encode(), host.encode(), port),
            ssl_context=context,
            keepalive_expiry=idle_s,
            network_backend=_PinnedBackend(egress, self),
        )


def _ignore() -> None:
    """Do nothing: no request uses the connection."""


class _Watched(httpcore.AsyncNetworkStream):
    """A stream that calls `leaving` before each write; above TLS too, so that a handshake does not count."""

    def __init__(self, inner: httpcore.AsyncNetworkStream, line: HttpConnection) -> None:
        self._inner = inner
        self._line = line

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._inner.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if buffer:
            self._line.leaving()
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _Watched(await self._inner.start_tls(ssl_context, server_hostname, timeout), self._line)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _PinnedBackend(httpcore.AsyncNetworkBackend):
    """Connects to addresses the egress rules have checked; TLS above it still verifies the name."""

    def __init__(self, egress: Egress, line: HttpConnection) -> None:
        self._egress = egress
        self._line = line
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
                stream = await self._inner.connect_tcp(
                    address, port, timeout, local_address=local_address, socket_options=socket_options
                )
                return _Watched(stream, self._line)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class Connections:
    """Kept by host name, so that two names at one address never share a TLS session. `keep`: keep idle ones."""

    def __init__(self, egress: Egress, *, keep: bool, ca_file: str = "", idle_s: float = IDLE_S) -> None:
        self._keep, self._idle_s = keep, idle_s
        self._context = ssl.create_default_context(cafile=ca_file or None)
        self._egress = egress
        self._idle: dict[_Origin, deque[HttpConnection]] = {}
        self._closed = False

    @asynccontextmanager
    async def one(self, target: Target) -> AsyncIterator[HttpConnection]:
        """Lend a connection for one request; it connects with the request where none is idle."""
        origin = (target.scheme, target.host, target.port)
        line = await self._ready(origin) or self._new(origin)
        try:
            yield line
        finally:
            line.leaving = _ignore
            with anyio.CancelScope(shield=True):
                await self._give_back(origin, line)

    async def close(self) -> None:
        """Close idle connections now, and each of the others when it is given back."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            for idle in self._idle.values():
                while idle:
                    await idle.pop().http.aclose()

    def _new(self, origin: _Origin) -> HttpConnection:
        return HttpConnection(self._egress, self._context, origin, self._idle_s)

    async def _ready(self, origin: _Origin) -> HttpConnection | None:
        """Return the one used last that is still usable; close those that the server has closed, or that are old."""
        idle = self._idle.get(origin, deque())
        while idle:
            line = idle.pop()
            if line.http.is_idle() and not line.http.has_expired():
                return line
            await line.http.aclose()
        return None

    async def _give_back(self, origin: _Origin, line: HttpConnection) -> None:
        if line.http.is_closed():
            return
        if self._closed or not (self._keep and line.http.is_idle()):
            await line.http.aclose()
            return
        idle = self._idle.setdefault(origin, deque())
        idle.append(line)
        while idle and idle[0].http.has_expired():
            await idle.popleft().http.aclose()
