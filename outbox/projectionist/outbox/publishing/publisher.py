"""Publishes events until the stream has answered, each under one id, so that it is stored once."""

from __future__ import annotations

import random
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
import msgspec
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError
from nats.js.errors import NotFoundError

from projectionist.core import cloudevents
from projectionist.core.nats import denials
from projectionist.core.nats.denials import SubjectDenied
from projectionist.core.retry_policy import RetryPolicy, wait
from projectionist.core.stream_token import StreamToken, birth
from projectionist.core.telemetry import names, server_attributes, tracing
from projectionist.outbox.publishing.draft import Draft, Producer, PublishError
from projectionist.outbox.publishing.publish_acks import Acks
from projectionist.outbox.publishing.stored_subject import stored_as
from projectionist.outbox.publishing.stream_birth import describe_stream

if TYPE_CHECKING:
    from nats.aio.client import Client

__all__ = ["Draft", "NotPublished", "PublishError", "Published", "Publisher", "WrongSequence"]

RETRY = RetryPolicy(initial_s=0.1, coefficient=2, maximum_s=5)
STREAM_S = 5.0
"""How long a stream may be missing, a leader's election included, before that is taken for a fault of the set-up."""
ANSWER_S = 5.0
NO_STREAM = "no stream takes this subject"
_WRONG_SEQUENCE = (10071, 10164)
_LATER = (429, 500, 503)


class WrongSequence(PublishError):
    """Another event came first: the subject's last sequence is another one. Read again and decide."""


class NotPublished(PublishError):
    """No answer within the deadline: the event may have been stored. Send the same draft again."""


class Published(msgspec.Struct, frozen=True):
    """An event's place in its stream; `duplicate` if it had been there already under its id."""

    stream: str
    sequence: int
    duplicate: bool


class Publisher(Producer):
    """A producer with a connection: `async with Publisher(client, source=…, subject=…) as publisher`.

    An outage is waited out for `within_s`, a stream that is not there for `stream_s`. The client should come
    from `projectionist.core.nats.connections`, which keeps nothing back while it is away.
    """

    def __init__(
        self,
        client: Client,
        *,
        source: str,
        subject: str,
        within_s: float = 30.0,
        stream_s: float = STREAM_S,
    ) -> None:
        super().__init__(source=source, subject=subject)
        self._client = client
        self._within_s, self._stream_s = within_s, min(stream_s, within_s)
        self._acks: Acks | None = None

    async def __aenter__(self) -> Self:
        self._acks = await Acks.open(self._client)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._acks is not None:
            await self._acks.close()

    async def publish(self, event: Any, *, aggregate: str, **envelope: Any) -> Published:
        """Draft and send in one."""
        return await self.send(self.draft(event, aggregate=aggregate, **envelope))

    async def send(self, draft: Draft) -> Published:
        """Publish until the stream answers, always under the same id, so that it is stored once.

        With tracing on, under a span in the trace that was going on when it was drafted; the message carries the
        context of the span.
        """
        if not tracing.on():
            return await self._send(draft)
        parent = draft.headers.get(cloudevents.TRACEPARENT)
        if parent is not None and cloudevents.is_traceparent(parent) and not tracing.is_sampled(parent):
            return await self._send(draft)
        attributes: tracing.Given = {
            names.SYSTEM: names.NATS,
            names.OPERATION: names.SEND,
            names.OPERATION_TYPE: names.SEND,
            names.TEMPLATE: self._pattern,
            names.MESSAGE_ID: draft.headers[cloudevents.DEFAULTS["id"]],
            **server_attributes.broker(self._client),
        }
        with tracing.sending(f"{names.SEND} {self._pattern}", attributes, draft.headers) as (span, named):
            published = await self._send(msgspec.structs.replace(draft, headers=named))
            span.set_attribute(names.DESTINATION, published.stream)
            return published

    async def _send(self, draft: Draft) -> Published:
        if self._acks is None:
            raise PublishError(
                "the Publisher is not open", remedy="Use it as: async with Publisher(…) as publisher"
            )
        trouble, attempt, missing, began = "no answer", 0, True, anyio.current_time()
        with anyio.move_on_after(self._within_s) as waiting:
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
                missing = missing and trouble == NO_STREAM
                waiting.deadline = began + (self._stream_s if missing else self._within_s)
                await anyio.sleep(wait(RETRY, attempt, chance=random.random()))  # noqa: S311 no secret
        if missing and attempt:
            raise NotPublished(
                f"no stream takes the subject {draft.subject}",
                remedy="Make the stream (`projectionist migrate --streams`, or NATS's tools), or correct the subject",
            )
        raise NotPublished(
            f"{draft.subject}: no stream took the event within {self._within_s:g} s ({trouble})",
            remedy="Check that a stream takes this subject, and publish the same draft again",
        )

    async def token(self, published: Published) -> str:
        """Return what a reader elsewhere waits by for this event: `App.wait_for_all`. Asks the broker once.

        Take it right after the publish: it is of the stream as it is now. Raises PublishError where the broker does not
        say so, and where the stream was made anew since.
        """
        try:
            info, created = await describe_stream(self._client, published.stream, ANSWER_S)
        except SubjectDenied as error:
            raise PublishError(error.message, remedy=error.remedy) from error
        except (NatsError, TimeoutError, OSError) as error:
            raise PublishError(
                f"no token: the broker does not describe the stream {published.stream} "
                f"({str(error) or error.__class__.__name__})",
                remedy="The event is stored. Ask for its token again",
            ) from error
        if info.state.last_seq < published.sequence:
            raise PublishError(
                f"no token: the stream {published.stream} has no sequence {published.sequence}: it was made anew since",
                remedy="The event is gone with the stream that held it: publish it again",
            )
        return str(StreamToken(published.stream, birth(created), published.sequence))

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
        """Return the place of this very draft, if it came next: its own ack may have been lost. Empty if not."""
        after, streams = int(draft.headers[cloudevents.EXPECTED_SEQUENCE]) + 1, self._client.jetstream()
        try:
            stream = await streams.find_stream_name_by_subject(draft.subject)
            subject = stored_as(draft.subject, (await streams.stream_info(stream)).config)
            found = await streams.get_msg(stream, seq=after, subject=subject, next=True)
        except NotFoundError:
            return ""
        except (NatsError, TimeoutError, OSError) as error:
            return str(error) or error.__class__.__name__
        if (found.headers or {}).get(cloudevents.MESSAGE_ID) != draft.headers[cloudevents.MESSAGE_ID]:
            return ""
        return Published(stream, found.seq or 0, duplicate=True)


async def _once(acks: Acks, draft: Draft) -> Published | str:
    """Return its place in the stream, or a reason to try again. Raises errors that another try cannot mend."""
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
    if ack.denied:
        raise PublishError(f"NATS does not let this user publish to {draft.subject}", remedy=denials.REMEDY)
    if ack.no_responders:
        return NO_STREAM
    if ack.error is None:
        return Published(ack.stream, ack.seq, ack.duplicate)
    if ack.error.err_code in _WRONG_SEQUENCE:
        raise WrongSequence(f"{draft.subject}: {ack.error.description}")
    if ack.error.code in _LATER:
        return ack.error.description
    raise PublishError(f"{draft.subject}: the stream refuses the event: {ack.error.description}")
