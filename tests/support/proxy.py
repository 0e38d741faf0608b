"""A TCP proxy whose connections can fall silent and stay open, as if a cable had been pulled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class Proxy:
    """Hands bytes on both ways; of what the server says, the first of two texts of one length becomes the second."""

    def __init__(self, upstream: str, told: tuple[bytes, bytes] = (b"", b"")) -> None:
        assert len(told[0]) == len(told[1]), "messages have lengths"
        self._upstream, self._told = urlsplit(upstream), told
        self._pumps: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.url = ""

    def cut(self) -> None:
        """From now on the connections there are carry nothing and stay open; new ones work."""
        for pump in self._pumps:
            pump.cancel()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        there, back = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        self._writers += [writer, back]
        for one, other, told in ((reader, back, (b"", b"")), (there, writer, self._told)):
            pump = asyncio.get_running_loop().create_task(_pump(one, other, told))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def close(self) -> None:
        """Drop everything."""
        pumps = list(self._pumps)
        self.cut()
        await asyncio.gather(*pumps, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, told: tuple[bytes, bytes]
) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data.replace(*told) if told[0] else data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def proxied(upstream: str, told: tuple[bytes, bytes] = (b"", b"")) -> AsyncIterator[Proxy]:
    """A proxy before the server at this URL."""
    proxy = Proxy(upstream, told)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    parts = urlsplit(upstream)
    login = parts.netloc.rpartition("@")[0]
    place = f"{login}{'@' * bool(login)}127.0.0.1:{server.sockets[0].getsockname()[1]}"
    proxy.url = parts._replace(netloc=place).geturl()
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
