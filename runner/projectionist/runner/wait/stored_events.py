"""Looks up in a stream which event a publish, or a token, names; one message is read once for all who wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import msgspec

from projectionist.core.content_hash import event_hashes
from projectionist.core.errors import ProjectionistError
from projectionist.core.nats import connections
from projectionist.core.stream_token import StreamToken, TokenError
from projectionist.outbox.recording.recorded import Recorded
from projectionist.runner.decoding.decoder import Decoder
from projectionist.runner.decoding.delivery import Unreadable
from projectionist.runner.jetstream import api
from projectionist.runner.wait.outcome import AwaitedEvent, WaitOutcome, WaitResult

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.core.settings.settings import Nats, Policy
    from projectionist.projections.compiled.definition import ConsumerDefinition


class CannotWait(ProjectionistError):
    """The thing that was asked for cannot be waited for."""


class PublishReceipt(Protocol):
    """The answer to a publish: that of `Publisher`."""

    @property
    def stream(self) -> str:
        """Return the stream that has it."""

    @property
    def sequence(self) -> int:
        """Return the sequence in it."""


class SeenMessage(msgspec.Struct, frozen=True):
    """What a stream holds at a sequence, None for nothing, and when the stream was made."""

    seq: int
    created: datetime
    message: api.StoredMessage | None


class SharedMessage:
    """One message of a stream, read when the first asks for it, and once for all."""

    def __init__(self, read: Callable[[], Awaitable[SeenMessage]]) -> None:
        self._read = read
        self._reading = asyncio.Lock()
        self._seen: SeenMessage | None = None

    async def read(self) -> SeenMessage:
        """Return the message. What was raised is not kept: the next who asks reads again."""
        async with self._reading:
            if self._seen is None:
                self._seen = await self._read()
            return self._seen

    def forget(self) -> None:
        """Have it read again: its stream may have been made anew."""
        self._seen = None


class StoredEvents:
    """Reads messages of streams over one connection, which is opened for the first of them."""

    def __init__(self, settings: Nats) -> None:
        self._settings = settings
        self._client: Client | None = None
        self._dialling = asyncio.Lock()

    def message(self, token: StreamToken) -> SharedMessage:
        """Return the message that a token names, not read yet; reading raises CannotWait for one of another stream."""

        async def read() -> SeenMessage:
            client = await self._broker()
            stream = await api.stream(client, token.stream)
            if not token.is_of(stream.created):
                raise CannotWait(
                    f"the token {token} is of another stream than the {token.stream} of today, which was made "
                    f"{stream.created:%Y-%m-%d %H:%M:%S} UTC",
                    remedy="It was made anew since, or is on another server: take a token of an event in it",
                )
            found = await api.message(client, token.stream, token.sequence)
            there = found is not None and found.seq == token.sequence
            return SeenMessage(token.sequence, stream.created, found if there else None)

        return SharedMessage(read)

    async def close(self) -> None:
        """Close the connection; the next reading opens another one."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _broker(self) -> Client:
        async with self._dialling:
            if self._client is None:
                self._client = await connections.connect(self._settings, name="projectionist wait")
            return self._client


def place_of(event: str | Recorded | PublishReceipt) -> StreamToken | Recorded:
    """Return where an event is stored; what recorded it where the relay is yet to publish it. Raises CannotWait."""
    if isinstance(event, str):
        try:
            return StreamToken.parse(event)
        except TokenError as error:
            raise CannotWait(error.message, remedy=error.remedy) from None
    if isinstance(event, Recorded):
        if event.token is not None:
            return StreamToken.parse(event.token)
        return event if event.sequence is None else StreamToken(event.stream, "", event.sequence)
    return StreamToken(event.stream, "", event.sequence)


def refuse_strangers(definitions: Iterable[ConsumerDefinition], stream: str) -> None:
    """Raise CannotWait where one of these consumers reads another stream."""
    strangers = [f"{one.name} reads {one.stream}" for one in definitions if one.stream != stream]
    if strangers:
        raise CannotWait(
            f"the event is in the stream {stream}, but {', '.join(strangers)}",
            remedy="Wait for each stream's consumers by an event of their stream",
        )


def awaited(
    definition: ConsumerDefinition, policy: Policy, row: Record, seen: SeenMessage
) -> AwaitedEvent | WaitResult:
    """Return which event a message is to a consumer; `row` says where that stands."""
    number, incarnation, message = row["number"], row["incarnation"], seen.message
    unknown = AwaitedEvent(consumer=number, incarnation=incarnation, seq=seen.seq)
    if message is None:
        return unknown
    if not definition.subjects.reads(message.subject):
        return WaitResult(WaitOutcome.NOT_MEANT, f"{definition.name} does not read {message.subject}")
    found = Decoder.of(definition, policy).reread(message.arrival(), seen.seq, incarnation)
    if isinstance(found, Unreadable):
        return unknown
    ordered = definition.sequence != "unordered"
    return AwaitedEvent(
        consumer=number,
        aggregate=found.aggregate if ordered else None,
        version=found.version if ordered else None,
        source=found.source,
        id=found.id,
        incarnation=incarnation,
        seq=seen.seq,
        hashes=event_hashes(found.type, found.schema, found.aggregate, found.version, found.data),
    )


async def together(waits: Iterable[Awaitable[WaitResult]]) -> list[WaitResult]:
    """Return all answers, in their order; the first error ends all."""
    tasks = [asyncio.ensure_future(one) for one in waits]
    try:
        answers: list[WaitResult] = await asyncio.gather(*tasks)
        return answers
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
