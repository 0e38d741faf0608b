"""Records events straight into their stream, without a database: its last message of the subject says the version."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import uuid4

import anyio
import msgspec
from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError

from projectionist.core import cloudevents
from projectionist.core.nats import connections
from projectionist.core.retry_policy import wait
from projectionist.core.stream_token import StreamToken, birth
from projectionist.outbox.publishing.draft import Draft, PublishError
from projectionist.outbox.publishing.publish_acks import wire_size
from projectionist.outbox.publishing.publisher import RETRY, NotPublished, Publisher, WrongSequence
from projectionist.outbox.publishing.stored_subject import DECLARE_ORIGIN, mirrored, stored_as
from projectionist.outbox.publishing.stream_birth import describe_stream
from projectionist.outbox.recording.call import (
    EventStream,
    RecordCall,
    StandingEvent,
    StreamOf,
    judge_call,
    prepare_call,
)
from projectionist.outbox.recording.stored_events import StoredEvent, next_step, read_stored, standing_of

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js.api import RawStreamMsg

    from projectionist.core.settings.settings import Nats
    from projectionist.outbox.recording.recorded import Recorded

MOST_SEQUENCE = 2**64 - 1
LOOK_BACK = 256
"""So many messages of the subject are read, one by one, to find what an earlier call has recorded."""

T = TypeVar("T")


class _Place(msgspec.Struct, frozen=True):
    """Where a call's events go: the stored subject, in the stream that was made when `birth` says."""

    subject: str
    birth: str


class StreamRecorder:
    """Records events without a database: `async with app.publisher() as publisher: await publisher.record(…)`."""

    def __init__(self, client: Client, stream_of: StreamOf, *, within_s: float = 30.0) -> None:
        self._client = client
        self._stream_of = stream_of
        self._within_s = within_s
        self._publishers: dict[str, Publisher] = {}
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._open.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.__aexit__(kind, problem, trace)

    async def record(
        self,
        aggregate: str,
        *events: Any,
        expected_version: int,
        id: str | None = None,  # noqa: A002 the envelope's word
        correlation: str | None = None,
    ) -> Recorded:
        """Record events of an aggregate (`type/id`) behind the version that it is expected to have, 0 for a new one.

        Returns when the stream has them; several are stored one after the other. Raises VersionConflict where somebody
        else was first, EventReused for an `id` of other events, PublishError for an event that no consumer could read,
        NotPublished where no answer came: then it may be stored. `id` names the request: recorded again under it, the
        answer is the first one, as long as the stream's duplicate window remembers it.
        """
        call = prepare_call(
            self._stream_of,
            aggregate,
            events,
            expected_version=expected_version,
            id=id,
            correlation=correlation,
        )
        drafts = [_named(call, draft) for draft in call.drafts()]
        self._check_sizes(drafts)
        publisher = await self._publisher(call.stream)
        place = await self._place(call.stream, drafts[0].subject)
        before = -1
        while True:
            sequence, recent = await self._recent(call, place.subject)
            try:
                return await self._append(publisher, call, drafts, place, sequence, recent)
            except WrongSequence:
                if sequence == before:
                    raise  # nobody came between: the server counts this subject in another way
                before = sequence

    def _check_sizes(self, drafts: list[Draft]) -> None:
        """Refuse a call of which the server would take some events and not all."""
        for draft in drafts:
            headers = draft.headers | {cloudevents.EXPECTED_SEQUENCE: f"{MOST_SEQUENCE}"}
            if wire_size(headers, draft.data) > self._client.max_payload:
                raise PublishError(f"{draft.subject}: the broker takes no event of {len(draft.data)} bytes")

    async def _append(
        self,
        publisher: Publisher,
        call: RecordCall,
        drafts: list[Draft],
        place: _Place,
        sequence: int,
        recent: list[StoredEvent],
    ) -> Recorded:
        actual = recent[0].version if recent else 0
        begin = next_step(call, actual, standing_of(call, drafts, recent))
        if not isinstance(begin, int):
            return begin
        for n, draft in enumerate(drafts[begin:], begin):
            headers = draft.headers | {cloudevents.EXPECTED_SEQUENCE: str(sequence)}
            published = await publisher.send(msgspec.structs.replace(draft, headers=headers))
            if published.duplicate and call.id is not None:
                # The stream knows the id. Whether it is that of this event is for us to find out.
                stored = await self._from(
                    call.stream.name, place.subject, published.sequence, len(drafts) - n
                )
                standing = standing_of(call, drafts[n:], stored)
                found = standing[0] or StandingEvent(0, same=False)
                if published.sequence <= sequence or not found.same:
                    return judge_call(call, actual, [*[None] * n, found, *standing[1:]])
            sequence = published.sequence
        token = StreamToken(call.stream.name, place.birth, sequence)
        return call.recorded(sequence=sequence, token=str(token))

    async def _recent(self, call: RecordCall, subject: str) -> tuple[int, list[StoredEvent]]:
        """Return the last sequence of the subject, and the aggregate's events down to the expected version, newest
        first. Each message says which one was before it."""
        stream = call.stream.name
        message = last = await self._message(stream, subject=subject)
        found: list[StoredEvent] = []
        told = True
        for _ in range(LOOK_BACK):
            if message is None:
                break
            one = read_stored(message)
            if one.belongs_to(call):
                found.append(one)
                if one.version <= call.expected:
                    break
            told = one.previous is not None
            message = await self._message(stream, seq=one.previous) if one.previous else None
        if last is not None and not found and not (told and message is None):
            raise PublishError(
                f"the version of {call.aggregate} cannot be told: the newest messages of {subject} are not its own",
                remedy="Give each type of aggregate subjects of its own: {type} in the subject of the Stream",
            )
        return (0 if last is None else last.seq or 0), found

    async def _from(self, stream: str, subject: str, seq: int, most: int) -> list[StoredEvent]:
        found: list[StoredEvent] = []
        while len(found) < most and (
            message := await self._message(stream, seq=seq, subject=subject, next=True)
        ):
            found.append(read_stored(message))
            seq = (message.seq or seq) + 1
        return found

    async def _message(self, stream: str, **wanted: Any) -> RawStreamMsg | None:
        async def ask() -> RawStreamMsg | None:
            try:
                # From the leader: a direct get may be answered by a replica that is behind.
                return await self._client.jetstream().get_msg(stream, direct=False, **wanted)
            except NotFoundError:
                return None

        return await self._asked(ask)

    async def _place(self, stream: EventStream, subject: str) -> _Place:
        async def ask() -> _Place:
            try:
                info, created = await describe_stream(self._client, stream.name)
                if mirror := mirrored(info.config):
                    raise PublishError(mirror, remedy=DECLARE_ORIGIN)
                return _Place(stored_as(subject, info.config), birth(created))
            except NotFoundError:
                raise PublishError(
                    f"there is no stream {stream.name}",
                    remedy="Make the streams of the app: `projectionist migrate --streams`",
                ) from None

        return await self._asked(ask)

    async def _publisher(self, stream: EventStream) -> Publisher:
        if stream.name not in self._publishers:
            publisher = Publisher(
                self._client, source=stream.source, subject=stream.subject, within_s=self._within_s
            )
            self._publishers[stream.name] = await self._open.enter_async_context(publisher)
        return self._publishers[stream.name]

    async def _asked(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the server until it answers, for as long as a publish is tried."""
        trouble, attempt = "no answer", 0
        with anyio.move_on_after(self._within_s):
            while True:
                try:
                    return await ask()
                except (NatsError, TimeoutError, OSError) as error:
                    trouble, attempt = str(error) or type(error).__name__, attempt + 1
                await anyio.sleep(wait(RETRY, attempt, chance=random.random()))  # noqa: S311 no secret
        raise NotPublished(
            f"JetStream gave no answer within {self._within_s:g} s ({trouble})",
            remedy="Call it again when the server is back",
        )


@asynccontextmanager
async def connected_recorder(settings: Nats, stream_of: StreamOf) -> AsyncIterator[StreamRecorder]:
    """Record events over a connection of its own."""
    client = await connections.connect(settings, name="projectionist publisher")
    try:
        async with StreamRecorder(client, stream_of) as recorder:
            yield recorder
    finally:
        await client.close()


def _named(call: RecordCall, draft: Draft) -> Draft:
    """Name the message: by the id where the call has one, else for this call alone, since an equal event of somebody
    else would be taken for a repetition."""
    if call.id is not None:
        return draft
    own = f"{draft.headers[cloudevents.MESSAGE_ID]} {uuid4().hex}"
    return msgspec.structs.replace(draft, headers=draft.headers | {cloudevents.MESSAGE_ID: own})
