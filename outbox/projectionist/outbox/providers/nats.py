"""Intents as derived events on a JetStream stream: deduplicated by the stream, looked up in it."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC
from functools import partial

import anyio
import msgspec
import nats.errors
from nats.aio.client import Client
from nats.js.api import StreamInfo
from nats.js.errors import NotFoundError

from projectionist.core import cloudevents as names_of
from projectionist.core.aggregates import AggregateError, parted
from projectionist.core.errors import ProjectionistError
from projectionist.core.nats.denials import SubjectDenied
from projectionist.core.printable_text import ID_BYTES, TEXT_BYTES, flaw, is_printable
from projectionist.outbox.providers import stream_position, templates
from projectionist.outbox.providers.base import (
    TOO_LATE,
    NotReady,
    Provider,
    ProviderContext,
    RenderError,
    Request,
)
from projectionist.outbox.providers.outgoing_headers import context_headers, is_name
from projectionist.outbox.providers.profiles import NATS
from projectionist.outbox.providers.reply import Outcome, Reply, clipped
from projectionist.outbox.providers.settings import ProviderSettings
from projectionist.outbox.providers.stream_position import StreamPosition
from projectionist.outbox.publishing.draft import FrozenPublish
from projectionist.outbox.publishing.publish_acks import Acks, PublishAck
from projectionist.outbox.publishing.stored_subject import DECLARE_ORIGIN, mirrored, stored_as

MOST_SCANNED = 10_000
"""A lookup reads at most this many messages of the target subject before it leaves the answer to a person."""

_PLAIN = re.compile(r"[\x21-\x7e]*")
_NAME = re.compile(r"[A-Za-z0-9-]+")
_TOKEN = re.compile(r"[^\s.*>]+")
_DUPLICATE_IN_PROCESS = 10158


class NatsSettings(ProviderSettings, frozen=True, kw_only=True):
    """`subject`: where to publish, with `{field}` of the intent, each one token. `stream`: needed where
    several streams could take it. `source` and `type`: of the derived event; by default the provider's and
    the intent's name. `headers`: more headers, with fields ("ce-aggregateid" = "{order_id}")."""

    subject: str
    stream: str = ""
    source: str = ""
    type: str = ""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    timeout_s: float = 5.0
    concurrency: int = 1024

    def __post_init__(self) -> None:
        for template in (self.subject, *self.headers.values()):
            templates.names(template)
        if self.subject.startswith("$"):
            raise ValueError(f"subject: {self.subject!r} begins with $, as the server's own subjects do")
        for name in self.headers:
            if not is_name(name):
                raise ValueError(f"headers: {name!r} cannot be the name of a header")
            if name.lower().startswith("nats-"):
                raise ValueError(f"headers: {name!r} is an order to the server, and no header of an event")
        for what, text in (("source", self.source), ("type", self.type)):
            if unfit := flaw(text, TEXT_BYTES):
                raise ValueError(f"{what} {unfit}")


class NatsPublish(Provider):
    """Publishes on the relay's own NATS connection, which must not buffer while it is disconnected.

    A producer's event bears its aggregate and version. A subclass with `versioned = False` publishes also events
    without, for consumers without order.
    """

    system = "nats"
    versioned = True
    Settings = NatsSettings
    settings: NatsSettings
    profile = NATS

    def __init__(self, name: str, settings: NatsSettings, site: ProviderContext) -> None:
        super().__init__(name, settings, site)
        self._client: Client | None = None
        self._acks: Acks | None = None
        self._stream = settings.stream
        self._seen = StreamPosition("", 0, "")

    @classmethod
    def publishes(cls, settings: NatsSettings) -> tuple[str, str]:
        """Return where a provider with these settings publishes: the stream, if it is named, and the subjects."""
        return settings.stream, templates.as_pattern(settings.subject)

    async def open(self) -> None:
        """Find the stream and how long it remembers ids."""
        if self.site.nats is None:
            raise ProjectionistError(f"the provider {self.name!r} needs a NATS connection, and there is none")
        self._client = await self.site.nats()
        try:
            info = await self._found(self._client)
            self._stream = info.config.name or self._stream
            self.profile = msgspec.structs.replace(
                NATS, memory_s=info.config.duplicate_window or NATS.memory_s
            )
            last = info.state.last_seq
            self._seen = StreamPosition(
                stream_position.created(info), last, await self._at(self._client, last)
            )
            self._acks = await Acks.open(self._client)
        except SubjectDenied as error:
            raise NotReady(f"[providers.{self.name}]: {error.message}", remedy=error.remedy) from error

    async def close(self) -> None:
        """Stop listening for acks; the connection is the relay's."""
        if self._acks is not None:
            await self._acks.close()

    def host(self, request: Request) -> str | None:
        """Return the server that the relay is connected to."""
        url = None if self._client is None else self._client.connected_url
        return None if url is None else url.hostname

    def render(self, request: Request) -> bytes:
        """Freeze subject and headers; the body is the content as it is. The key is the message's and the event's id."""
        fields = request.fields()
        headers = names_of.compose(
            {
                "id": request.key,
                "source": self.settings.source or f"projectionist/{self.name}",
                "type": self.settings.type or request.intent,
                **self._of(request),
                "time": request.created.astimezone(UTC).isoformat().replace("+00:00", "Z"),
                "causation": request.id or None,
            }
        )
        for name, template in self.settings.headers.items():
            headers[name] = _header(name, templates.fill(template, fields))
        headers[names_of.MESSAGE_ID] = request.key
        headers[names_of.EXPECTED_STREAM] = self._stream
        subject = templates.fill(self.settings.subject, fields, _token)
        if not is_printable(subject, TEXT_BYTES):
            raise RenderError(f"the subject is longer than {TEXT_BYTES} bytes, or cannot be printed")
        if subject.startswith("$"):
            raise RenderError("a field makes the subject begin with $, as the server's own subjects do")
        return msgspec.json.encode(FrozenPublish(subject, headers))

    def _of(self, request: Request) -> dict[str, str | None]:
        """Return the aggregate of a producer's event. An intent of a handler is no event of its event's aggregate."""
        if not request.produced:
            return {}
        said = {names_of.DEFAULTS[word] for word in ("aggregate", "version")} <= self.settings.headers.keys()
        if self.versioned and not said and None in (request.aggregate, request.version):
            raise RenderError(
                "it is an event without aggregate and version, which consumers would put into quarantine",
                remedy="Give Outbox.add(aggregate='order/7', version=3), or a provider class with versioned = False",
            )
        try:
            kind, identity = ("", None) if request.aggregate is None else parted(request.aggregate)
        except AggregateError as error:
            raise RenderError(error.message, remedy=error.remedy) from None
        version = None if request.version is None else str(request.version)
        return {"aggregate_type": kind or None, "aggregate": identity, "version": version}

    async def lookup_hint(self, request: Request) -> str:
        """Return the stream's last known position: the message can only come after it."""
        return str(self._seen)

    async def send(self, request: Request) -> Reply:
        """Publish once, and wait for the stream's ack."""
        client, acks = self._connected()
        if client is None or acks is None:
            return Reply(outcome=Outcome.NOT_SENT, reason="not connected to NATS")
        subject, headers = _addressed(request)
        if request.too_late():
            return TOO_LATE
        try:
            ack = await acks.publish(subject, request.body, headers, request.timeout_s)
        except nats.errors.MaxPayloadError:
            return Reply(outcome=Outcome.REFUSED, reason="larger than the server takes")
        except (nats.errors.BadSubjectError, nats.errors.BadHeaderError, ValueError) as error:
            return Reply(
                outcome=Outcome.REFUSED, reason=f"not a message that NATS takes ({type(error).__name__})"
            )
        except nats.errors.Error:
            # Raised before anything is put on the connection, which keeps nothing for later.
            return Reply(outcome=Outcome.NOT_SENT, reason="the connection to NATS was lost")
        return self._reply_of(request, ack)

    def begin(self, request: Request) -> asyncio.Future[Reply] | None:
        """Publish at once; the future is done with the stream's ack."""
        client, acks = self._connected()
        subject, headers = _addressed(request)
        if client is None or acks is None or request.too_late() or not _fit(subject, headers):
            return None
        reply_of = partial(self._reply_of, request)
        return acks.post(subject, request.body, headers, request.timeout_s, reply_of)

    def _reply_of(self, request: Request, ack: PublishAck | None) -> Reply:
        if ack is None:
            return Reply(outcome=Outcome.UNKNOWN, reason=f"no ack within {request.timeout_s:g} s")
        if ack.seq and not ack.duplicate:
            # The last ack, not the highest: a stream that lost its end goes on below what it had reached.
            self._seen = StreamPosition(self._seen.created, ack.seq, stream_position.named(request.key))
        return classify(ack)

    async def lookup(self, request: Request) -> Reply:
        """Read the target subject from the hint on, by the stream's leader, for a message with this key."""
        client, _ = self._connected()
        if client is None:
            return Reply(outcome=Outcome.RETRY, reason="not connected to NATS")
        subject = request.frozen(FrozenPublish).subject
        try:
            with anyio.fail_after(request.timeout_s):
                info = await client.jetstream().stream_info(self._stream)
                hint = stream_position.before(request, info)
                if hint is None:
                    return Reply(outcome=Outcome.UNKNOWN, reason="no position of the stream was noted before")
                if hint.created != stream_position.created(info):
                    return Reply(outcome=Outcome.UNKNOWN, reason="the stream is not the one it was sent to")
                subject = stored_as(subject, info.config)
                found, whole = await self._scan(client, subject, request.key, hint.seq + 1)
                same = bool(found) or await self._at(client, hint.seq) == hint.what
        except SubjectDenied as error:
            return Reply(outcome=Outcome.RETRY, reason=error.message)
        except (nats.errors.Error, TimeoutError):
            return Reply(outcome=Outcome.RETRY, reason="the stream could not be read")
        if found:
            identity = f"{self._stream}:{found}"
            return Reply(outcome=Outcome.SENT, reason="found by lookup", provider_id=identity, replayed=True)
        if not same or (hint.seq and not hint.what):
            return Reply(outcome=Outcome.UNKNOWN, reason="the stream has lost its end since")
        if whole and _keeps_all(info, hint.seq + 1):
            return Reply(outcome=Outcome.NOT_SENT, reason="surely not in the stream")
        return Reply(outcome=Outcome.UNKNOWN, reason="not found, but the stream no longer holds everything")

    async def _at(self, client: Client, seq: int) -> str:
        """Return the hint of the message at this sequence, "" for none."""
        if not seq:
            return ""
        try:
            return stream_position.what(await client.jetstream().get_msg(self._stream, seq, direct=False))
        except NotFoundError:
            return ""

    async def _scan(self, client: Client, subject: str, key: str, start: int) -> tuple[int, bool]:
        """Find the message with this key: its sequence (0: none), and True if the subject was read to its end."""
        stream, sequence = client.jetstream(), start
        for _ in range(MOST_SCANNED):
            try:
                # From the leader: a direct get may be answered by a replica that is behind.
                message = await stream.get_msg(self._stream, sequence, subject, direct=False, next=True)
            except NotFoundError:
                return 0, True
            if (message.headers or {}).get(names_of.MESSAGE_ID) == key:
                return message.seq or 0, True
            sequence = (message.seq or sequence) + 1
        return 0, False

    def _connected(self) -> tuple[Client | None, Acks | None]:
        client = self._client
        return (client if client is not None and client.is_connected else None), self._acks

    async def _found(self, client: Client) -> StreamInfo:
        stream = client.jetstream()
        pattern = templates.as_pattern(self.settings.subject)
        try:
            name = self._stream or await stream.find_stream_name_by_subject(pattern)
            info = await stream.stream_info(name)
            if mirror := mirrored(info.config):
                raise NotReady(f"[providers.{self.name}]: {mirror}", remedy=DECLARE_ORIGIN)
            return info
        except NotFoundError:
            raise NotReady(
                f"[providers.{self.name}]: "
                + (
                    f"no stream takes the subject {pattern}"
                    if pattern
                    else f"there is no stream {self._stream}"
                ),
                remedy="Create the stream, or name it with `stream`"
                if pattern
                else "Make the streams of the app: `projectionist migrate --streams`",
            ) from None
        except (nats.errors.Error, TimeoutError) as error:
            raise NotReady(
                f"[providers.{self.name}]: JetStream does not answer ({type(error).__name__})"
            ) from error


def _addressed(request: Request) -> tuple[str, dict[str, str]]:
    """Return subject and headers of one attempt: the frozen ones, and its trace context."""
    wire = request.frozen(FrozenPublish)
    trace = {name: names_of.encode(value) for name, value in context_headers(request)}
    return wire.subject, wire.headers | trace


def _fit(subject: str, headers: dict[str, str]) -> bool:
    """Return True where subject and headers need none of nats-py's own care on the wire."""
    return _PLAIN.fullmatch(subject + "".join(headers.values())) is not None and all(
        map(_NAME.fullmatch, headers)
    )


def classify(ack: PublishAck) -> Reply:
    """Turn the stream's ack into a reply. Pure."""
    if ack.denied:
        # Rights may have changed between two publishes of one subject: the first of them may be stored.
        return Reply(
            outcome=Outcome.UNKNOWN,
            reason="NATS does not let this user publish to the subject",
            status="denied",
        )
    if ack.no_responders:
        return Reply(outcome=Outcome.NOT_SENT, reason="no stream listens to this subject now", status="503")
    if ack.error is None:
        identity = f"{ack.stream}:{ack.seq}"
        return Reply(
            outcome=Outcome.SENT,
            status="duplicate" if ack.duplicate else "stored",
            provider_id=identity,
            replayed=ack.duplicate,
        )
    error = ack.error
    outcome, reason = Outcome.REFUSED, "the stream refused it"
    if error.err_code == _DUPLICATE_IN_PROCESS:
        outcome, reason = Outcome.IN_FLIGHT, "the stream is storing this key"
    elif error.code in (429, 503):
        outcome, reason = Outcome.RETRY, "the stream does not take it now"
    elif error.code >= 500:
        outcome, reason = Outcome.UNKNOWN, "the stream failed"
    status = f"{error.code}/{error.err_code}"
    return Reply(outcome=outcome, reason=reason, status=status, excerpt=clipped(error.description))


def _header(name: str, value: str) -> str:
    """Encode a header's value; an event's own must be one that consumers can read."""
    most = ID_BYTES if name.lower() == names_of.DEFAULTS["id"] else TEXT_BYTES
    if name.lower().startswith("ce-") and not is_printable(value, most):
        raise RenderError(f"the header {name} would have more than {most} bytes, or could not be printed")
    return names_of.encode(value)


def _token(value: str) -> str:
    if not _TOKEN.fullmatch(value):
        raise RenderError("a field of the subject is empty or holds a space, a full stop or a wildcard")
    return value


def _keeps_all(info: StreamInfo, start: int) -> bool:
    """Return True where a message stored from `start` on would still be there."""
    state, config = info.state, info.config
    replaced = (config.max_msgs_per_subject or 0) > 0 or config.allow_rollup_hdrs
    renamed = config.subject_transform is not None
    return state.first_seq <= start and not (state.num_deleted or replaced or renamed)
