"""The end of a stream as it grows, read beside the work: what live applies meanwhile is at hand, without asking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from projectionist.core.nats.fast_client import weight
from projectionist.core.task_groups import unwrap_single_exception
from projectionist.core.testpoints import announce
from projectionist.runner.jetstream.ack_subject import num_pending
from projectionist.runner.jetstream.stream_reader import follow, sequence

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.nats.fast_client import Arrival

BEFORE = 2_000
"""It begins so many messages before the last that was folded: not all come in their order."""
MOST, MOST_BYTES = 20_000, 32 * 1024 * 1024
"""Nothing more is read beyond; what live applies further on is folded without the barrier."""
LATE_S = 0.1
"""How long a message may be on its way that live has applied already."""


class Tail:
    """Filled from a stream until it is full; asked for what has come."""

    def __init__(self) -> None:
        self._kept: dict[int, Arrival] = {}
        self._size = 0
        self._at = 0
        self._more = asyncio.Event()
        self._ready = asyncio.Event()

    async def ready(self) -> None:
        """Return when everything has come that was there, or when no more is kept."""
        await self._ready.wait()
        announce("tail.ready")

    async def these(self, seqs: Sequence[int]) -> dict[int, Arrival] | None:
        """Return the messages at these sequences; None if they are not all at hand. Asks nobody."""
        last = max(seqs, default=0)
        with anyio.move_on_after(LATE_S):
            while self._at < last:
                await self._more.wait()
        found = {seq: self._kept[seq] for seq in seqs if seq in self._kept}
        return found if len(found) == len(set(seqs)) else None

    async def fill(self, following: AsyncGenerator[list[Arrival], None]) -> None:
        """Keep what comes, until it is full."""
        async with aclosing(following) as blocks:
            async for block in blocks:
                self._keep(block)
                if self._full or not block or not num_pending(block[-1].reply):
                    self._ready.set()
                if self._full:
                    return

    @property
    def _full(self) -> bool:
        return len(self._kept) > MOST or self._size > MOST_BYTES

    def _keep(self, block: list[Arrival]) -> None:
        for arrival in block:
            self._at = sequence(arrival)
            self._kept[self._at] = arrival
            self._size += weight(arrival)
        self._more.set()
        self._more = asyncio.Event()


@asynccontextmanager
async def tailing(client: Client, stream: str, filter_subject: str, top: int) -> AsyncIterator[Tail]:
    """Yield the tail from a little before message `top` on, read inside the block."""
    tail = Tail()
    blocks = follow(client, stream, filter_subject, max(1, top - BEFORE))
    with unwrap_single_exception():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tail.fill, blocks)
            yield tail
            tasks.cancel_scope.cancel()
