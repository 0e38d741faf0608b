"""A TCP proxy before PostgreSQL: counts connections, refuses them, falls silent, loses the answer to a COMMIT."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

COMMIT = b"COMMIT;"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Gateway:
    """Hands bytes on both ways, as long as it is told nothing else."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream)
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._abandoned: list[asyncio.StreamWriter] = []
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.url = ""
        self.attempts = 0
        """Connections that somebody has begun."""
        self.refusing = False
        self.losing = 0
        """How many answers to a COMMIT are still to be lost, each with its connection."""
        self.lost = 0
        self.carried = 0
        """Bytes of answers."""

    def follow(self, upstream: str) -> None:
        """New connections lead to another server from now on."""
        self._upstream = urlsplit(upstream)

    def cut(self) -> None:
        """End every connection there is."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def stall(self) -> None:
        """From now on every connection carries nothing and stays open, new ones too."""
        self._flowing.clear()

    def flow(self) -> None:
        """Carry on, with what was held back."""
        self._flowing.set()

    def abandon(self) -> None:
        """The connections there are never carry anything again; new ones work."""
        for task in self._tasks:
            task.cancel()
        self._abandoned += self._writers
        self._writers.clear()
        self._flowing.set()

    def drop_abandoned(self) -> None:
        """End the connections that were abandoned, on both sides, as keepalives do."""
        for writer in self._abandoned:
            writer.transport.abort()
        self._abandoned.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        self.attempts += 1
        if self.refusing:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        except OSError:
            writer.transport.abort()
            return
        self._writers += [writer, back]
        loses = asyncio.Event()
        for pump in (self._out(reader, back, loses), self._in(there, writer, loses)):
            task = asyncio.get_running_loop().create_task(pump)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _out(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, loses: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._flowing.wait()
                if self.losing and COMMIT in data:
                    self.losing -= 1
                    loses.set()
                writer.write(data)
                await writer.drain()
        writer.close()

    async def _in(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, loses: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._flowing.wait()
                if loses.is_set():
                    self.lost += 1
                    writer.transport.abort()
                    return
                self.carried += len(data)
                writer.write(data)
                await writer.drain()
        writer.close()

    async def close(self) -> None:
        """Drop everything."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.cut()
        self.drop_abandoned()


@asynccontextmanager
async def gateway(upstream: str) -> AsyncIterator[Gateway]:
    """A gateway to the server at this URL; its own URL differs by host and port alone."""
    made = Gateway(upstream)
    async with standing_before(upstream, made.serve) as made.url:
        try:
            yield made
        finally:
            await made.close()


@asynccontextmanager
async def standing_before(upstream: str, serve: Serve) -> AsyncIterator[str]:
    """Have `serve` take connections in place of the server at this URL; the URL that leads there."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    parts = urlsplit(upstream)
    user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    try:
        yield parts._replace(netloc=f"{user}127.0.0.1:{server.sockets[0].getsockname()[1]}").geturl()
    finally:
        server.close()
