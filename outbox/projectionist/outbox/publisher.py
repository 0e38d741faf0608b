"""Publishes events so that consumers can tell them apart: stable ids, all headers, once per id."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import anyio
import msgspec
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError
from nats.js.errors import NotFoundError
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from projectionist.core import headers, tokens
from projectionist.core.backoff import Retry, wait
from projectionist.core.errors import ProjectionistError
from projectionist.core.headers import HeaderError
from projectionist.outbox.ids import Part, business_key
from projectionist.outbox.keys import frozen_body
from projectionist.outbox.providers.acks import Acks

if TYPE_CHECKING:
    from nats.aio.client import Client

RETRY = Retry(initial_s=0.1, coefficient=2, maximum_s=5)
ANSWER_S = 5.0
_WRONG_SEQUENCE = (10071, 10164)
_LATER = (429, 500, 503)


class PublishError(ProjectionistError):
    """The event cannot be published as it is. Nothing was stored."""


class WrongSequence(PublishError):
    """Another event came first: the subject's last sequence is another one. Read again and decide."""


class NotPublished(PublishError):
    """No answer within the deadline: whether it was stored is unknown. Send the same draft again."""


class Published(msgspec.Struct, frozen=True):
    """Where an event stands in its stream; `duplicate` if it had been there already under its id."""

    stream: str
    sequence: int
    duplicate: bool


class Draft(msgspec.Struct, frozen=True):
    """An event with its identity, ready to be published any number of times."""

    subject: str
    headers: dict[str, str]
    data: bytes


class TypedEvent(Protocol):
    """What is read of an event's class, beside its fields, unless the caller says it."""

    __event_type__: str
    __event_schema__: int


class Publisher:
    """Publishes for one producer, named by `source`; `subject` is a pattern such as `shop.order.{aggregate}`.

    The client should come from `projectionist.core.broker`, which keeps nothing back while it is away.
    """

    def __init__(self, client: Client, *, source: str, subject: str, within_s: float = 30.0) -> None:
        self._client, self._source, self._pattern, self._within_s = client, source, subject, within_s
        self._acks: Acks | None = None

    async def __aenter__(self) -> Self:
        self._acks = await Acks.open(self._client)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._acks is not None:
            await self._acks.close()

    def draft(
        self,
        event: TypedEvent | msgspec.Struct | dict[str, Any] | bytes,
        *,
        aggregate: str,
        version: int | None = None,
        aggregate_type: str | None = None,
        id: str | None = None,  # noqa: A002 the envelope's word
        identity: str | tuple[str, ...] | None = None,
        type: str | None = None,  # noqa: A002 the envelope's word
        schema: int | None = None,
        time: datetime | None = None,
        correlation: str | None = None,
        causation: str | None = None,
        expected_last_subject_sequence: int | None = None,
    ) -> Draft:
        """An event to be sent. Its id is `id`, or made of the fields that `identity` names: give one.

        Type and schema come from the event's class. The trace that is going on here goes with it.
        """
        kind = type or getattr(event, "__event_type__", None)
        if not kind:
            raise PublishError(
                "the event has no type", remedy="Give type=, or an Event class that declares it"
            )
        fields: dict[str, str | None] = {
            "id": _identity(event, kind, id, identity),
            "source": self._source,
            "type": kind,
            "schema": str(schema or getattr(event, "__event_schema__", 1)),
            "aggregate_type": aggregate_type,
            "aggregate": aggregate,
            "version": None if version is None else str(version),
            "time": _written(time or datetime.now(UTC)),
            "correlation": correlation,
            "causation": causation,
        }
        try:
            named = headers.compose(fields)
        except HeaderError as error:
            raise PublishError(error.message) from error
        # Streams compare this header alone, and two sources may use the same ids.
        named[headers.MESSAGE_ID] = f"{named[headers.DEFAULTS['source']]} {named[headers.DEFAULTS['id']]}"
        if expected_last_subject_sequence is not None:
            named[headers.EXPECTED_SEQUENCE] = str(expected_last_subject_sequence)
        TraceContextTextMapPropagator().inject(named)
        return Draft(self._subject(aggregate_type or "", aggregate), named, _body(event))

    async def publish(self, event: Any, *, aggregate: str, **envelope: Any) -> Published:
        """`draft` and `send` in one."""
        return await self.send(self.draft(event, aggregate=aggregate, **envelope))

    async def send(self, draft: Draft) -> Published:
        """Publish until the stream answers, always under the same id, so that it is stored once."""
        if self._acks is None:
            raise PublishError(
                "the Publisher is not open", remedy="Use it as: async with Publisher(…) as publisher"
            )
        trouble, attempt = "no answer", 0
        with anyio.move_on_after(self._within_s):
            while True:
                answer: Published | str
                try:
                    answer = await _once(self._acks, draft)
                except WrongSequence:
                    if not (found := await self._stored_before(draft)):
                        raise
                    answer = found
                if isinstance(answer, Published):
                    return answer
                trouble, attempt = answer, attempt + 1
                await anyio.sleep(wait(RETRY, attempt, chance=random.random()))  # noqa: S311 no secret
        raise NotPublished(
            f"{draft.subject}: no stream took the event within {self._within_s:g} s ({trouble})",
            remedy="Check that a stream takes this subject, and publish the same draft again",
        )

    async def publish_many(self, drafts: Iterable[Draft], *, in_flight: int = 256) -> list[Published]:
        """Publish many, at most so many unanswered, begun in their order; raises the first failure.

        After one, publish all again: what had been stored is answered as a duplicate.
        """
        sent: dict[int, Published] = {}
        slots = anyio.Semaphore(in_flight)

        async def send(number: int, draft: Draft) -> None:
            try:
                sent[number] = await self.send(draft)
            finally:
                slots.release()

        failed: list[PublishError] = []
        try:
            async with anyio.create_task_group() as tasks:
                for number, draft in enumerate(drafts):
                    await slots.acquire()
                    tasks.start_soon(send, number, draft)
        except* PublishError as group:
            failed.extend(error for error in group.exceptions if isinstance(error, PublishError))
        if failed:
            raise failed[0]
        return [sent[number] for number in sorted(sent)]

    async def _stored_before(self, draft: Draft) -> Published | str:
        """Where this very draft stands, if it is what came next: its own ack may have been lost. Empty if not."""
        after, streams = int(draft.headers[headers.EXPECTED_SEQUENCE]) + 1, self._client.jetstream()
        try:
            stream = await streams.find_stream_name_by_subject(draft.subject)
            found = await streams.get_msg(stream, seq=after, subject=draft.subject, next=True)
        except NotFoundError:
            return ""
        except (NatsError, TimeoutError, OSError) as error:
            return str(error) or error.__class__.__name__
        if (found.headers or {}).get(headers.MESSAGE_ID) != draft.headers[headers.MESSAGE_ID]:
            return ""
        return Published(stream, found.seq or 0, duplicate=True)

    def _subject(self, aggregate_type: str, aggregate: str) -> str:
        values = {"{aggregate}": aggregate, "{type}": aggregate_type}
        words = [tokens.encode(values[word]) if word in values else word for word in self._pattern.split(".")]
        if not all(words) or {"*", ">"} & set(words):
            raise PublishError(
                f"{self._pattern} gives no subject for aggregate {aggregate_type!r}, {aggregate!r}",
                remedy="Name every token: literals, {aggregate} and {type}",
            )
        return ".".join(words)


def _identity(event: object, kind: str, id: str | None, identity: str | tuple[str, ...] | None) -> str:  # noqa: A002
    if (id is None) == (identity is None):
        raise PublishError(
            f"an event of type {kind} needs either id= or identity=",
            remedy="Give the id the business knows, or the fields that make it: identity=('shop', 'order_id')",
        )
    if id is not None:
        if not 1 <= len(id.encode("utf-8", "replace")) <= 255 or not id.isprintable():
            raise PublishError(f"the id {id[:100]!a} is not 1 to 255 bytes of printable text")
        return id
    names = (identity,) if isinstance(identity, str) else identity or ()
    return business_key(kind, *(_part(event, name) for name in names))


def _part(event: object, name: str) -> Part:
    value = event.get(name) if isinstance(event, dict) else getattr(event, name, None)
    if not isinstance(value, str | int):
        raise PublishError(
            f"identity= names {name}, and the event has no text or whole number there",
            remedy="Name fields that are always there, or give id=",
        )
    return value


def _body(event: Any) -> bytes:
    if isinstance(event, bytes):
        return event
    try:
        return frozen_body(event)
    except ValueError as error:
        raise PublishError(str(error)) from error


def _written(time: datetime) -> str:
    if time.tzinfo is None:
        raise PublishError("time= has no time zone", remedy="Give an aware datetime: datetime.now(UTC)")
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


async def _once(acks: Acks, draft: Draft) -> Published | str:
    """Where it was stored, or why to try again. Raises what trying again cannot mend."""
    try:
        ack = await acks.publish(draft.subject, draft.data, draft.headers, ANSWER_S)
    except MaxPayloadError as error:
        raise PublishError(
            f"{draft.subject}: the broker takes no event of {len(draft.data)} bytes"
        ) from error
    except (NatsError, TimeoutError, OSError) as error:
        return str(error) or error.__class__.__name__
    if ack is None:
        return "no answer"
    if ack.no_responders:
        return "no stream takes this subject"
    if ack.error is None:
        return Published(ack.stream, ack.seq, ack.duplicate)
    if ack.error.err_code in _WRONG_SEQUENCE:
        raise WrongSequence(f"{draft.subject}: {ack.error.description}")
    if ack.error.code in _LATER:
        return ack.error.description
    raise PublishError(f"{draft.subject}: the stream refuses the event: {ack.error.description}")
