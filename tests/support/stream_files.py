"""The files of a stream, put back to an earlier copy: what a server has after it lost what was not on its disk."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from nats.aio.client import Client
from nats.errors import Error as NatsError
from tests.support.servers import Servers
from tests.support.waiting import eventually


class StreamFiles:
    """Those of one stream of the session's server; `client` comes back by itself when the server was down."""

    def __init__(self, servers: Servers, client: Client, stream: str, folder: Path) -> None:
        self._servers, self._client, self._stream = servers, client, stream
        self._place = next((servers._servers.home / "nats").glob(f"**/streams/{stream}"))
        self._copy = folder / "copy"

    async def keep(self) -> None:
        """Copy them, while the server is down."""
        await self._restart(lambda: shutil.copytree(self._place, self._copy))

    async def put_back(self) -> None:
        """Have the server go on with the copy."""
        await self._restart(self._replace)

    def _replace(self) -> None:
        shutil.rmtree(self._place)
        shutil.copytree(self._copy, self._place)

    async def _restart(self, between: Callable[[], object]) -> None:
        self._servers._servers.nats.stop()
        await asyncio.to_thread(between)
        await asyncio.to_thread(self._servers.up)
        await eventually(self._answers)

    async def _answers(self) -> bool:
        with suppress(NatsError):
            await self._client.jetstream(timeout=0.5).stream_info(self._stream)
            return True
        return False
