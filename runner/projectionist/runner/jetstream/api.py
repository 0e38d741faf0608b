"""The requests of the JetStream API that a source needs, and of the answers only what it reads."""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from projectionist.core import clock
from projectionist.core.errors import ProjectionistError
from projectionist.core.nats import api_subjects
from projectionist.core.nats.denials import SubjectDenied
from projectionist.core.nats.fast_client import Arrival
from projectionist.core.nats.subject_relations import ALL, covers

if TYPE_CHECKING:
    from nats.aio.client import Client

Answer = TypeVar("Answer")

LOOK_S = 2.0
"""How long the answer about one message may take; whoever asks looks again soon."""


class BrokerError(ProjectionistError):
    """The broker refused or did not answer a request. Nothing was lost: try again, or do what it says."""


class StreamMissing(BrokerError):
    """There is no such stream yet. The runner waits for it; create it, or mend the name in the class."""


class ConsumerMissing(BrokerError):
    """There is no such durable on the stream."""


class RequestDenied(BrokerError):
    """These credentials may not ask, or not be answered. Grant the subject that is named."""


class JetStreamMissing(BrokerError):
    """Nobody answers for JetStream: it is off at this server, or for this account."""


class Transform(msgspec.Struct, frozen=True):
    """Under which subject a message is stored that came under another one."""

    src: str = ""
    dest: str = ""


class Origin(msgspec.Struct, frozen=True):
    """A stream whose messages come into this one: all of them, or those a filter or its transforms let through."""

    name: str
    filter_subject: str = ""
    subject_transforms: list[Transform] | None = None


class StreamConfig(msgspec.Struct, frozen=True):
    """Holds what of a stream's configuration decides whether it keeps what we need."""

    subjects: list[str] | None = None
    retention: str = "limits"
    max_msgs_per_subject: int = -1
    allow_rollup_hdrs: bool = False
    allow_msg_ttl: bool = False
    max_age: int = 0
    """Nanoseconds; 0: a message stays for ever."""
    duplicate_window: int = 0
    num_replicas: int = 1
    max_msgs: int = -1
    max_bytes: int = -1
    discard: str = "old"
    mirror: Origin | None = None
    """The one stream that this one copies, under the same sequences; it takes nothing else."""
    sources: list[Origin] | None = None
    subject_transform: Transform | None = None
    deny_delete: bool = False
    deny_purge: bool = False
    republish: Transform | None = None
    """Where messages are published on once they are stored, which changes nothing in the stream."""


class StreamState(msgspec.Struct, frozen=True):
    """Says what a stream holds."""

    messages: int
    first_seq: int
    last_seq: int
    bytes: int = 0
    first_ts: datetime | None = None
    """When the first message that is left was stored; of an empty stream it says nothing."""


class StreamInfo(msgspec.Struct, frozen=True):
    """A stream as the broker describes it."""

    config: StreamConfig
    state: StreamState
    created: datetime


class ConsumerConfig(msgspec.Struct, frozen=True):
    """A durable's configuration; the defaults are the broker's."""

    deliver_policy: str = "all"
    ack_policy: str = "none"
    replay_policy: str = "instant"
    ack_wait: int = 0
    max_deliver: int = -1
    max_ack_pending: int = 0
    filter_subject: str = ""
    filter_subjects: list[str] = []
    backoff: list[int] = []
    deliver_subject: str = ""
    headers_only: bool = False
    max_batch: int = 0
    """Of one order, like the two below: the broker refuses larger ones. 0 is no limit."""
    max_expires: int = 0
    max_bytes: int = 0
    inactive_threshold: int = 0
    pause_until: str = ""
    metadata: dict[str, str] = {}

    @property
    def filters(self) -> list[str]:
        """Return what it lets through, as patterns."""
        return self.filter_subjects or [self.filter_subject or ALL]

    def passes_over(self, subject: str) -> bool:
        """Return whether it lets less through than this pattern: then its floor rises over what nobody was given."""
        return not any(covers(each, subject) for each in self.filters)


class AckFloor(msgspec.Struct, frozen=True):
    """Up to where everything is acked, and how many deliveries that took."""

    stream_seq: int
    consumer_seq: int = 0


class Delivered(msgspec.Struct, frozen=True):
    """Counts how many deliveries there were, begun anew at a reset, and up to which message."""

    consumer_seq: int = 0
    stream_seq: int = 0


class DurableInfo(msgspec.Struct, frozen=True):
    """A durable as the broker describes it."""

    config: ConsumerConfig
    created: datetime
    ack_floor: AckFloor
    num_pending: int
    num_ack_pending: int
    delivered: Delivered = Delivered()
    paused: bool = False
    """Whether the broker delivers nothing of it for now, by somebody's word."""


class MessageMissing(BrokerError):
    """The stream holds no such message, or none of that subject from there on."""


class StoredMessage(msgspec.Struct, frozen=True):
    """A message as the stream holds it."""

    subject: str
    seq: int
    hdrs: bytes | None = None
    data: bytes = b""
    time: str = ""
    """When the stream took it."""

    def arrival(self) -> Arrival:
        """Return it as if it had just arrived; there is nothing to ack."""
        return Arrival(subject=self.subject, reply=b"", head=self.hdrs, data=self.data, received=clock.now())


class _Found(msgspec.Struct):
    message: StoredMessage


class _Whole(msgspec.Struct):
    config: dict[str, Any]


class _Names(msgspec.Struct):
    streams: list[str] | None = None


class _Refusal(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Head(msgspec.Struct):
    error: _Refusal | None = None


_MISSING = {
    10037: MessageMissing,
    10059: StreamMissing,
    10014: ConsumerMissing,
    10149: ConsumerMissing,
}


async def stream(client: Client, name: str) -> StreamInfo:
    """Return the stream of this name."""
    return await ask(client, api_subjects.stream_info(name), b"", StreamInfo)


async def put_stream(client: Client, config: dict[str, Any], *, new: bool) -> StreamInfo:
    """Make a stream, or set its configuration, which is given whole."""
    subject = (api_subjects.stream_create if new else api_subjects.stream_update)(config["name"])
    return await ask(client, subject, msgspec.json.encode(config), StreamInfo)


async def change_stream(client: Client, name: str, changes: dict[str, Any]) -> StreamInfo:
    """Change these settings of a stream. All others stay as they are."""
    known = await ask(client, api_subjects.stream_info(name), b"", _Whole)
    return await put_stream(client, known.config | changes, new=False)


async def takers(client: Client, subject: str) -> list[str]:
    """Return the names of streams that take a subject, which may hold wildcards; at most those of one answer."""
    found = await ask(client, api_subjects.stream_names(), msgspec.json.encode({"subject": subject}), _Names)
    return sorted(found.streams or ())


async def consumer(client: Client, stream_name: str, name: str) -> DurableInfo:
    """Return the durable `name` of a stream."""
    return await ask(client, api_subjects.consumer_info(stream_name, name), b"", DurableInfo)


async def put_consumer(
    client: Client, stream_name: str, config: dict[str, Any], *, action: str
) -> DurableInfo:
    """Return `create` or `update` a consumer, under its `name`. The filter `>` is none: even that one costs."""
    if config["filter_subject"] == ALL:
        config = {key: value for key, value in config.items() if key != "filter_subject"}
    subject = api_subjects.consumer_create(stream_name, config["name"], config.get("filter_subject", ""))
    body = msgspec.json.encode({"stream_name": stream_name, "config": config, "action": action})
    return await ask(client, subject, body, DurableInfo)


async def change_consumer(
    client: Client, stream_name: str, name: str, changes: dict[str, Any]
) -> DurableInfo:
    """Change these settings of a consumer. All others stay as they are: not every one of them may be changed."""
    known = await ask(client, api_subjects.consumer_info(stream_name, name), b"", _Whole)
    if "filter_subject" in changes:
        known.config.pop("filter_subjects", None)
    config = {"filter_subject": ALL, "name": name} | known.config | changes
    return await put_consumer(client, stream_name, config, action="update")


async def drop_consumer(client: Client, stream_name: str, name: str) -> None:
    """Delete a consumer."""
    await ask(client, api_subjects.consumer_delete(stream_name, name), b"", _Head)


async def message(
    client: Client, stream_name: str, seq: int, subject: str | None = None
) -> StoredMessage | None:
    """Return the message at `seq`, or the first of `subject` from there on; None if there is none.

    The stream's leader is asked: what it does not have is not there. (A direct get may be answered by a replica
    that is behind.)
    """
    wanted = {"seq": seq} if subject is None else {"seq": seq, "next_by_subj": subject}
    try:
        place = api_subjects.message_get(stream_name)
        found = await ask(client, place, msgspec.json.encode(wanted), _Found, LOOK_S)
    except MessageMissing:
        return None
    return found.message


async def delete_message(client: Client, stream_name: str, seq: int) -> None:
    """Delete the message at `seq`, and have the broker write over it. One that is gone already is gone."""
    wanted = msgspec.json.encode({"seq": seq, "no_erase": False})
    with contextlib.suppress(MessageMissing):
        await ask(client, api_subjects.message_delete(stream_name), wanted, _Head)


async def ask(client: Client, subject: str, body: bytes, answer: type[Answer], seconds: float = 5) -> Answer:
    """Return the broker's answer to one request of the JetStream API, whose `subject` is one of `api_subjects`."""
    request = subject.removeprefix(f"{api_subjects.API}.")
    try:
        data = (await client.request(subject, body, timeout=seconds)).data
    except SubjectDenied as error:
        raise RequestDenied(error.message, remedy=error.remedy) from error
    except NoRespondersError as error:
        raise JetStreamMissing(
            f"Nobody answers {request}: JetStream is off at this server, or for this account",
            remedy="Turn it on: `jetstream` in the server's configuration, and in the account's limits",
        ) from error
    except (NatsError, TimeoutError, OSError) as error:
        raise BrokerError(
            f"The broker did not answer {request}: {str(error) or type(error).__name__}",
            remedy="It may be electing a leader: try again, and look at it with `nats server report jetstream`",
        ) from error
    try:
        refusal = msgspec.json.decode(data, type=_Head).error
        if refusal is None:
            return msgspec.json.decode(data, type=answer)
    except msgspec.MsgspecError as error:
        raise BrokerError(f"The broker's answer to {request} cannot be read: {error}") from error
    kind = _MISSING.get(refusal.err_code, BrokerError)
    raise kind(f"The broker refused {request}: {refusal.description} ({refusal.err_code})")
