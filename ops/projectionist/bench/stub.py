"""An HTTP server that says yes to everything, at once: in place of a provider, or of a collector."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_YES = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{"id":"ok"}'


@asynccontextmanager
async def stub() -> AsyncIterator[str]:
    """Yield the URL of the server, which listens inside the block."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if length := _LENGTH.search(head):
                await reader.readexactly(int(length[1]))
            writer.write(_YES)
    writer.close()
