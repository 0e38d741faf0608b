"""Publish acks of JetStream, awaited on one inbox.

nats-py's own `publish_async` never settles a publish that a stream answers with a 503; its `publish` costs a
request a message. Here every answer, whatever it says, settles exactly its publish.
"""

from __future__ import annotations

import asyncio
from itertools import count

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription


class AckError(msgspec.Struct, frozen=True):
    """Why a stream did not take a message."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class Ack(msgspec.Struct, frozen=True):
    """What came back for one publish."""

    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: AckError | None = None
    no_responders: bool = False


_decode = msgspec.json.Decoder(Ack).decode


class Acks:
    """The publishes of one connection that wait for their ack."""

    def __init__(self, client: Client, inbox: str) -> None:
        self._client = client
        self._inbox = inbox
        self._numbers = count(1)
        self._waiting: dict[str, asyncio.Future[Ack | None]] = {}
        self._subscription: Subscription | None = None

    @classmethod
    async def open(cls, client: Client) -> Acks:
        """Listen on a fresh inbox."""
        acks = cls(client, client.new_inbox())
        acks._subscription = await client.subscribe(f"{acks._inbox}.*", cb=acks._settle)
        return acks

    async def close(self) -> None:
        """Stop listening."""
        if self._subscription is not None and not self._client.is_closed:
            await self._subscription.unsubscribe()

    async def publish(
        self, subject: str, body: bytes, headers: dict[str, str], timeout_s: float
    ) -> Ack | None:
        """Publish and wait for the ack; None if it has not come within `timeout_s`."""
        number, loop = str(next(self._numbers)), asyncio.get_running_loop()
        future: asyncio.Future[Ack | None] = loop.create_future()
        self._waiting[number] = future
        # A timer instead of a cancel scope: at thousands of publishes a second it is a tenth of the whole.
        timer = loop.call_later(timeout_s, _give_up, future)
        try:
            await self._client.publish(subject, body, reply=f"{self._inbox}.{number}", headers=headers)
            return await future
        finally:
            timer.cancel()
            del self._waiting[number]

    async def _settle(self, message: Msg) -> None:
        future = self._waiting.get(message.subject.rpartition(".")[2])
        if future is None or future.done():
            return
        if not message.data:
            # The server answers in the subject's place when nobody listens to it.
            future.set_result(Ack(no_responders=True))
            return
        try:
            future.set_result(_decode(message.data))
        except msgspec.DecodeError:
            # Somebody who is not a stream answered; whether one also stored it, only its id can tell.
            future.set_result(Ack(error=AckError(code=500, description="not an ack")))


def _give_up(future: asyncio.Future[Ack | None]) -> None:
    if not future.done():
        future.set_result(None)
