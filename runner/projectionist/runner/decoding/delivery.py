"""One arrival, read: a Delivery, or Unreadable and why."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from projectionist.core.cloudevents import timestamp
from projectionist.core.nats.fast_client import Arrival
from projectionist.core.states import InboxState
from projectionist.projections import Envelope
from projectionist.projections.event import AnyEvent


class Delivery(msgspec.Struct, gc=False):
    """One arrival of an event, or its parked row read again. In no cycle, so the collector may skip it."""

    source: str
    id: str
    type: str
    schema: int
    aggregate: str | None
    """`type/id`, as tables hold it."""
    version: int | None
    data: bytes
    hash: bytes
    """Over type, schema, aggregate, version and data: what one identity must always arrive with."""
    stream: str
    seq: int
    subject: str
    event: AnyEvent | None = None
    """The decoded event; None if no handler declares its type, or with a `problem`."""
    problem: str | None = None
    """Why the body of a readable envelope is refused: this delivery is the failed head of its aggregate."""
    time: str | None = None
    correlation: str | None = None
    causation: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    received_us: int = 0
    """Wall clock, in microseconds since 1970."""
    published_ns: int = 0
    """When the stream stored it, by the broker's clock."""
    delivered: int = 1
    used_fallback: bool = False
    """The producer gave no identity: it was made of the aggregate's version, or of the stream's sequence."""
    arrival: Arrival | None = None
    incarnation: int | None = None
    """Of the stream it was parked from; None for what has just arrived from the present one."""
    parked: bool = False
    """Read again from its parked row."""
    attempts: int = 0
    budget: int | None = None
    erased: bool = False
    """Its body is encrypted under a key that is gone: it is stepped over."""
    discarded: bool = False
    """Decided against while it waited: it is stepped over."""
    baggage: str | None = None
    """What is allowed of its baggage, where that is kept: an arrival has all of it in its headers."""
    released: datetime | None = None
    """It is to come out of quarantine, perhaps with corrected headers or bytes: when somebody asked for that."""

    @property
    def kept(self) -> bytes | None:
        """Return the bytes to store; None for an event that was emptied."""
        return None if self.discarded and not self.data else self.data

    @property
    def provisional(self) -> InboxState:
        """Return the state it ends in unless something holds it up."""
        if self.discarded:
            return InboxState.DISCARDED
        if self.event is None and self.problem is None:
            return InboxState.ERASED if self.erased else InboxState.IGNORED
        return InboxState.APPLIED

    def envelope(self) -> Envelope:
        """Return what handlers and intents may know of it beside its content."""
        kind, separator, name = (self.aggregate or "").partition("/")
        return Envelope(
            source=self.source,
            id=self.id,
            type=self.type,
            schema=self.schema,
            aggregate_type=kind,
            aggregate_id=name if separator else None,
            version=self.version,
            time=None if self.time is None else timestamp(self.time).astimezone(UTC),
            correlation=self.correlation,
            causation=self.causation,
            traceparent=self.traceparent,
            tracestate=self.tracestate,
            stream=self.stream,
            sequence=self.seq,
        )


class Reason(StrEnum):
    """Names what of an arrival could not be read."""

    REPLY = "reply"
    SUBJECT = "subject"
    HEADERS = "headers"
    SOURCE = "source"
    """Its source may not speak on its subject."""
    IDENTITY = "identity"
    TYPE = "type"
    SCHEMA = "schema"
    AGGREGATE = "aggregate"
    VERSION = "version"
    TIME = "time"
    BODY = "body"
    FAULT = "fault"
    """Reading it goes wrong by a fault of ours, or ends the process."""
    REFUSED = "refused"
    """It was read, and PostgreSQL refuses to hold it."""


class Refused(Exception):
    """There is no readable envelope. It never leaves the reader, which returns Unreadable."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class Unreadable(msgspec.Struct, gc=False):
    """An arrival without a readable envelope: for quarantine, with what is known of it."""

    reason: Reason
    detail: str
    stream: str
    seq: int
    subject: str
    headers: bytes | None
    data: bytes
    """All of it, or the beginning of one above the size limit."""
    size: int
    hash: bytes
    """Over the whole data alone."""
    received_us: int
    delivered: int
    arrival: Arrival
    source: str | None = None
    id: str | None = None
    aggregate: str | None = None
    version: int | None = None
    again_s: float | None = None
    """When it is read again by itself, which may find that the server's trouble is over."""
