"""What a source needs of a connection: the wire client itself, or a plain nats-py client in its shape."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from nats.errors import Error as NatsError

from projectionist.core.nats import fast_client

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg


class RawConnection(Protocol):
    """A subscription without a queue, and publishing without waiting."""

    async def listen(self, subject: str, sink: fast_client.Sink) -> Callable[[], Awaitable[None]]:
        """Give what arrives on `subject` to `sink`, over reconnects; returns the function that ends it."""

    def post(self, subjects: Iterable[bytes], payload: bytes = b"", reply: bytes = b"") -> bool:
        """Publish one payload to many subjects; False, and nothing is kept, while disconnected."""

    async def flush(self, timeout: int = 10) -> None:
        """Return when the broker has read what was posted."""


def raw_connection(client: Client) -> RawConnection:
    """Return the fastest line `client` can be."""
    return client if isinstance(client, fast_client.Client) else CompatConnection(client)


class CompatConnection:
    """The same by public names alone: slower, and what nats-py holds at a disconnect may be sent after it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._posts: deque[tuple[str, bytes, str]] = deque()
        self._poster: asyncio.Task[None] | None = None

    async def listen(self, subject: str, sink: fast_client.Sink) -> Callable[[], Awaitable[None]]:
        """Give what arrives on `subject` to `sink`, over reconnects; returns the function that ends it."""

        async def hand_over(message: Msg) -> None:
            head = _head(message)
            if not message.reply:
                sink.status(message.subject, head or b"")
                return
            arrivals, stamp = sink.begin()
            connection = self._client.stats["reconnects"]
            arrivals.append(
                fast_client.Arrival(
                    subject=message.subject,
                    reply=message.reply.encode(),
                    head=head,
                    data=message.data,
                    received=stamp,
                    connection=connection,
                )
            )
            sink.end(fast_client.weight(arrivals[-1]))

        # Without limits: nats-py would drop what is beyond them, and what the sink orders is limited already.
        subscription = await self._client.subscribe(
            subject, cb=hand_over, pending_msgs_limit=0, pending_bytes_limit=0
        )
        return partial(fast_client.unsubscribe, self._client, subscription)

    def post(self, subjects: Iterable[bytes], payload: bytes = b"", reply: bytes = b"") -> bool:
        """Publish one payload to many subjects; False, and nothing is kept, while disconnected."""
        if not self._client.is_connected:
            return False
        self._posts.extend((subject.decode(), payload, reply.decode()) for subject in subjects)
        if self._poster is None or self._poster.done():
            self._poster = asyncio.get_running_loop().create_task(self._send())
        return True

    async def flush(self, timeout: int = 10) -> None:
        """Return when the broker has read what was posted."""
        if self._poster is not None:
            await self._poster
        await self._client.flush(timeout)

    async def _send(self) -> None:
        connection = self._client.stats["reconnects"]
        while self._posts:
            subject, payload, reply = self._posts.popleft()
            with contextlib.suppress(NatsError):  # disconnected in between: the rest goes too
                await self._client.publish(subject, payload, reply)
            if self._client.stats["reconnects"] != connection or not self._client.is_connected:
                self._posts.clear()


def _head(message: Msg) -> bytes | None:
    if not message.headers:
        return None
    fields = dict(message.headers)
    status = fields.pop("Status", None)
    first = f"NATS/1.0 {status} {fields.pop('Description', '')}".rstrip() if status else "NATS/1.0"
    return "\r\n".join([first, *(f"{name}: {value}" for name, value in fields.items()), "", ""]).encode()
