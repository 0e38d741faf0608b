"""Single messages of a stream, read from its leader: some at once, and no more bytes than asked for."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

import anyio

from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.api import BrokerError

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.runner.jetstream.api import StoredMessage

log = logging.getLogger("projectionist.runner")

AT_ONCE = 16
"""How many requests are on their way at the same time: what is read beyond the limit of bytes is that much."""


class Stored:
    """One stream, for whoever needs messages beside those that are delivered."""

    def __init__(self, client: Client, stream: str) -> None:
        self._client = client
        self._stream = stream
        self._answers = True

    async def first(self, subject: str, seq: int = 1) -> StoredMessage | None:
        """Return the first message of a subject (it may hold wildcards) at or after `seq`. Raises BrokerError."""
        return await self._ask(seq, subject)

    async def each(self, seqs: Iterable[int], most_bytes: int) -> dict[int, StoredMessage | None]:
        """Return the messages at these sequences, None for one that is gone.

        They are asked for in the order given, until `most_bytes` are there; the rest is left out. Raises BrokerError.
        """
        found: dict[int, StoredMessage | None] = {}
        failed: list[BrokerError] = []
        left, size = iter(seqs), 0

        async def ask() -> None:
            nonlocal size
            while size < most_bytes and not failed and (seq := next(left, None)) is not None:
                try:
                    found[seq] = message = await self._ask(seq)
                except BrokerError as error:
                    failed.append(error)
                else:
                    size += 0 if message is None else len(message.data)

        async with anyio.create_task_group() as tasks:
            for _ in range(AT_ONCE):
                tasks.start_soon(ask)
        if failed:
            raise failed[0]
        return found

    async def _ask(self, seq: int, subject: str | None = None) -> StoredMessage | None:
        """Ask, and tell when the stream stops answering and when it does again."""
        try:
            message = await api.message(self._client, self._stream, seq, subject)
        except BrokerError as error:
            if self._answers:
                log.warning("stream %s cannot be asked for what waits: %s", self._stream, error)
            self._answers = False
            raise
        if not self._answers:
            log.info("stream %s answers again", self._stream)
        self._answers = True
        return message
