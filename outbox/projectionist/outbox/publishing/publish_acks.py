"""Publish acks of JetStream, awaited on one inbox.

nats-py's own `publish_async` never settles a publish that a stream answers with a 503; its `publish` costs a
request a message. Here every answer, whatever it says, settles exactly its publish.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import TypeVar

import msgspec
from nats.aio.client import NO_RESPONDERS_STATUS, Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError
from nats.js.api import Header

from projectionist.core.nats import fast_client
from projectionist.core.nats.careful_client import CarefulClient, denials_of
from projectionist.core.nats.denials import Denial, SubjectDenied, beside
from projectionist.core.nats.subject_relations import ALL

FLUSH_S = 2
"""How long is waited for the server to have read what was sent."""


class AckError(msgspec.Struct, frozen=True):
    """A stream's reason for not taking a message."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class PublishAck(msgspec.Struct, frozen=True):
    """The answer to one publish."""

    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: AckError | None = None
    no_responders: bool = False
    denied: bool = False
    """The server does not let this user publish to the subject."""


_decode = msgspec.json.Decoder(PublishAck).decode

T = TypeVar("T")


class Acks:
    """The publishes of one connection that wait for their ack."""

    def __init__(self, client: Client, inbox: str) -> None:
        self._client = client
        self._inbox = inbox
        self._numbers = count(1)
        self._waiting: dict[str, tuple[str, Callable[[PublishAck | None], None]]] = {}
        self._subscription: Subscription | None = None
        self._unheard: SubjectDenied | None = None
        self._end_hearing = denials_of(client).listen((beside(inbox), ALL), self._hear_denial)

    @classmethod
    async def open(cls, client: Client) -> Acks:
        """Listen on a fresh inbox. Raises SubjectDenied where this user may not."""
        acks = cls(client, client.new_inbox())
        acks._subscription = await client.subscribe(f"{acks._inbox}.*", cb=acks._settle)
        if isinstance(
            client, CarefulClient
        ):  # another one would tell nothing, and a flush in vain may end it
            with contextlib.suppress(
                NatsError, TimeoutError, OSError
            ):  # away: it subscribes when it comes back
                await client.flush(FLUSH_S)
        if acks._unheard is not None:
            await acks.close()
            raise acks._unheard
        return acks

    async def close(self) -> None:
        """Stop listening."""
        self._end_hearing()
        if self._subscription is not None and not self._client.is_closed:
            await self._subscription.unsubscribe()

    async def publish(
        self, subject: str, body: bytes, headers: dict[str, str], timeout_s: float
    ) -> PublishAck | None:
        """Publish and wait for the ack; None if it has not come within `timeout_s`.

        Raises MaxPayloadError for what the server does not take: it would close the connection over it.
        """
        if wire_size(headers, body) > self._client.max_payload:
            raise MaxPayloadError
        number, future, timer = self._expected(subject, timeout_s, lambda ack: ack)
        try:
            await self._client.publish(subject, body, reply=f"{self._inbox}.{number}", headers=headers)
            return await future
        finally:
            timer.cancel()
            self._waiting.pop(number, None)

    def post(
        self,
        subject: str,
        body: bytes,
        headers: Mapping[str, str],
        timeout_s: float,
        result_of: Callable[[PublishAck | None], T],
    ) -> asyncio.Future[T] | None:
        """Publish as `publish` does, at half the cost: no task waits; the future holds the ack's `result_of`.

        Headers must be fit for the wire. None, with nothing sent: this connection cannot do it, or not now.
        """
        client = self._client
        if not isinstance(client, fast_client.Client) or len(body) > client.max_payload // 2:
            return None
        head = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        number, future, timer = self._expected(subject, timeout_s, result_of)
        reply = f"{self._inbox}.{number}".encode()
        if not client.put(subject.encode(), reply, f"NATS/1.0\r\n{head}\r\n".encode(), body):
            timer.cancel()
            del self._waiting[number]
            return None
        return future

    def _expected(
        self, subject: str, timeout_s: float, result_of: Callable[[PublishAck | None], T]
    ) -> tuple[str, asyncio.Future[T], asyncio.TimerHandle]:
        number, loop = str(next(self._numbers)), asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        # A timer instead of a cancel scope: at thousands of publishes a second it is a tenth of the whole.
        timer = loop.call_later(timeout_s, self._answered, number, None)
        self._waiting[number] = subject, partial(_resolve, future, timer, result_of)
        return number, future, timer

    def _answered(self, number: str, ack: PublishAck | None) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            waiting[1](ack)

    def _hear_denial(self, denial: Denial, pattern: str) -> None:
        """Answer what waits for an ack of this subject; one of them may be stored, if the rights have just changed."""
        if pattern != ALL:
            self._unheard = denial.error(pattern)
        elif denial.publishing:
            for number, (subject, _) in list(self._waiting.items()):
                if subject.lower() == denial.subject:
                    self._answered(number, _DENIED)

    async def _settle(self, message: Msg) -> None:
        self._answered(message.subject.rpartition(".")[2], _read(message))


def wire_size(headers: Mapping[str, str], body: bytes) -> int:
    """Return what a server holds against its `max_payload`: the headers count too, which no client looks at."""
    lines = sum(len(name.encode()) + len(value.encode()) + len(": \r\n") for name, value in headers.items())
    return len("NATS/1.0\r\n\r\n") + lines + len(body)


def _read(message: Msg) -> PublishAck:
    if not message.data and (message.headers or {}).get(Header.STATUS) == NO_RESPONDERS_STATUS:
        # The server answers in the subject's place when it has no subscriber.
        return PublishAck(no_responders=True)
    try:
        ack = _decode(message.data)
    except msgspec.DecodeError:
        return _NO_ACK
    return ack if ack.error is not None or (ack.stream and ack.seq) else _NO_ACK


_NO_ACK = PublishAck(error=AckError(code=500, description="not an ack"))
"""A subscriber that is no stream answered; only a lookup of the id can tell if a stream stored it, too."""


_DENIED = PublishAck(denied=True)


def _resolve(
    future: asyncio.Future[T],
    timer: asyncio.TimerHandle,
    result_of: Callable[[PublishAck | None], T],
    ack: PublishAck | None,
) -> None:
    timer.cancel()
    if not future.done():
        future.set_result(result_of(ack))
