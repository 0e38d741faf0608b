"""From the bytes of an arrival to a Delivery. Pure; whatever the bytes, the answer is a value."""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from contextlib import suppress
from typing import TYPE_CHECKING

from anyio import to_thread

from projectionist.core import clock, json_limits
from projectionist.core.cloudevents import MOST_SCHEMA, MOST_VERSION, HeaderError
from projectionist.core.content_hash import canonical, data_hash, event_hash
from projectionist.core.printable_text import ID_BYTES, TEXT_BYTES
from projectionist.core.user_errors import RAISED, is_ours
from projectionist.projections.errors import Erased
from projectionist.runner.decoding import cloudevents_structured
from projectionist.runner.decoding.delivery import Delivery, Reason, Refused, Unreadable
from projectionist.runner.decoding.event_identity import Identities
from projectionist.runner.decoding.header_parser import NOTHING, Fields, Heads
from projectionist.runner.decoding.trusted_sources import TrustedSources
from projectionist.runner.decoding.validation import (
    agreed,
    check_causes,
    check_fields,
    check_time,
    clean,
    kept,
    kept_subject,
    lacking,
    number,
    ordered_place,
    trace_of,
)
from projectionist.runner.jetstream.ack_subject import parse_ack_subject, stream_sequence

if TYPE_CHECKING:
    from projectionist.core.nats.fast_client import Arrival
    from projectionist.core.postgres.connections import Row
    from projectionist.core.settings.settings import Policy
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.projections.event import AnyEvent

Match = Callable[[str], tuple[str | None, str | None] | None]
"""The aggregate's type and id that a subject holds; None for a subject of others."""
Decode = Callable[[str, int, bytes], "AnyEvent"]

KEPT_BYTES = 1024
"""What is kept of bytes that are too many to be an event."""

Body = tuple["AnyEvent | None", str | None, bool]
"""The event, or what is wrong with it, and whether its key is gone."""
Known = tuple[str | None, str | None, str | None, int | None]
"""Source, id, aggregate and version, each if it is known."""
NOBODY: Known = (None, None, None, None)


class Decoder:
    """Reads the arrivals of one consumer by its rules, which are worked out once.

    `incarnation` counts the streams that had this name.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        stream: str,
        ordered: bool,
        match: Match,
        known: Container[str],
        decode: Decode,
        incarnation: int = 1,
        trusted: TrustedSources | None = None,
    ) -> None:
        self.incarnation = incarnation
        self.deadly: set[tuple[int, int]] = set()
        """Messages, by incarnation and sequence, that end the process in which their body is decoded."""
        self._policy, self._stream, self._ordered = policy, stream, ordered
        self._match, self._known, self._decode = match, known, decode
        self._heads = Heads(policy.headers)
        self._kind = policy.aggregate_type or ""
        self._trusted = trusted
        self._identities = Identities(policy, stream, self._heads.names)
        self.unnamed = False
        """Whether an event came without an id of its producer."""
        self._examined: tuple[bytes, str | None, bytes] | None = None
        """The last large body that was looked at, what is wrong with it, and its canonical form."""
        self._hash = event_hash if policy.hash == "raw" else self._canonical_digest
        self._epoch, self._epoch_until = 0.0, 0.0

    @classmethod
    def of(cls, definition: ConsumerDefinition, policy: Policy, incarnation: int = 1) -> Decoder:
        """Return the decoder of a consumer's events."""
        return cls(
            policy,
            stream=definition.stream,
            ordered=definition.sequence != "unordered",
            match=definition.subjects.match,
            known=definition.known,
            decode=definition.decode,
            incarnation=incarnation,
            trusted=TrustedSources.of(policy, [one.filter for one in definition.subjects.patterns]),
        )

    def read(self, arrival: Arrival) -> Delivery | Unreadable | None:
        """Return the delivery, or why there is none; None for a subject of others, whatever came under it."""
        try:
            place = parse_ack_subject(arrival.reply)
        except (ValueError, IndexError):
            reply = clean(repr(arrival.reply))
            one: Delivery | Unreadable = self._unreadable(
                arrival, 0, 1, Reason.REPLY, f"the reply subject {reply} is not JetStream's"
            )
        else:
            one = self._answer(arrival, *place, self.incarnation)
        if one.__class__ is Unreadable and self._is_foreign(arrival.subject):
            return None
        return one

    def reread(self, arrival: Arrival, seq: int, incarnation: int | None = None) -> Delivery | Unreadable:
        """Return the same for a message that was not delivered just now: what the stream or quarantine holds at
        `seq`."""
        return self._answer(arrival, seq, 1, 0, self.incarnation if incarnation is None else incarnation)

    async def examine(self, data: bytes) -> None:
        """Look at a large body beside the event loop, for the `read` that comes next."""
        self._examined = data, *await to_thread.run_sync(self._looked_at, data)

    def _looked_at(self, data: bytes) -> tuple[str | None, bytes]:
        bad = None if self._too_large(data) else json_limits.fault(data, self._policy.max_depth)
        is_hashed = self._policy.hash != "raw" and bad is None and not self._too_large(data)
        return bad, canonical(data, self._policy.max_depth) if is_hashed else data

    def _fault(self, data: bytes) -> str | None:
        if self._examined is not None and self._examined[0] is data:
            return self._examined[1]
        return json_limits.fault(data, self._policy.max_depth)

    def settled(self, arrival: Arrival) -> Delivery | Unreadable | None:
        """Return the same for an event that was read and settled before, in half the time: it has no hash, and what was
        checked then is not checked again. Its content is."""
        try:
            fields = self._heads.read(arrival.head)
            name, kind, schema, version = fields[0], fields[2], fields[3], fields[6]
            if not (kind and name and version and self._identities.usual) or fields[14] is not None:
                return self.read(arrival)
            if self._trusted is not None:
                self._trusted.check(fields[1] or self._stream, arrival.subject)
            aggregate = self._aggregate(arrival.subject, fields[4], fields[5])
            schema_number = 1 if schema is None else int(schema)
            event, problem, erased = self._decoded(kind, schema_number, arrival.data)
            traced = fields[10] is not None or fields[11] is not None
            parent, state = trace_of(*fields[10:14]) if traced else (None, None)
            delivery = Delivery(
                source=fields[1] or self._stream,
                id=name,
                type=kind,
                schema=schema_number,
                aggregate=aggregate,
                version=int(version),
                data=arrival.data,
                hash=b"",
                stream=self._stream,
                seq=stream_sequence(arrival.reply),
                subject=arrival.subject,
                event=event,
                problem=problem,
                time=fields[7],
                arrival=arrival,
            )
            delivery.correlation, delivery.causation = fields[8], fields[9]
            delivery.erased = erased
            delivery.traceparent, delivery.tracestate = parent, state
            return delivery
        except Exception:  # noqa: BLE001  the longer way says what it is
            return self.read(arrival)

    def _answer(
        self, arrival: Arrival, seq: int, delivered: int, published_ns: int, incarnation: int
    ) -> Delivery | Unreadable:
        try:
            return self._read(arrival, seq, delivered, published_ns, incarnation)
        except HeaderError as error:
            return self._unreadable(arrival, seq, delivered, Reason.HEADERS, str(error))
        except Refused as refused:
            # Where it may not speak, what it says of itself counts for nothing: it fills no gap, and takes no identity.
            known = NOBODY if refused.reason is Reason.SOURCE else None
            return self._unreadable(arrival, seq, delivered, refused.reason, str(refused), known)
        except Exception as error:  # noqa: BLE001  a fault of ours: what brings it out is kept, and all else goes on
            return self._unreadable(
                arrival, seq, delivered, Reason.FAULT, f"{type(error).__name__}: {error}", known=NOBODY
            )

    def _read(
        self, arrival: Arrival, seq: int, delivered: int, published_ns: int, incarnation: int
    ) -> Delivery:
        if self.deadly and (incarnation, seq) in self.deadly:
            raise Refused(Reason.FAULT, "every try of reading it ended the process")
        fields, data, subject = self._heads.read(arrival.head), arrival.data, arrival.subject
        if fields[14] is not None or self._trusted is not None:
            fields, data = self._admitted(fields, data, subject)
        kind, schema, kind_of, name_of, version, moment, correlation, causation = fields[2:10]
        if not kind:
            raise Refused(Reason.TYPE, lacking("type", self._heads.names, "the event's type"))
        schema_number = 1 if schema is None else number(schema, MOST_SCHEMA, Reason.SCHEMA)
        version_number = None if version is None else number(version, MOST_VERSION, Reason.VERSION)
        aggregate = self._aggregate(subject, kind_of, name_of)
        place: tuple[str | int | None, ...] = (incarnation, seq)
        if self._ordered:
            place = ordered_place(aggregate, version_number, self._heads.names)
        source, name, used_fallback = self._identified(fields, data, place, subject)
        check_fields(source, name, kind, aggregate, subject)
        if moment is not None:
            check_time(moment)
        if correlation is not None or causation is not None:
            check_causes(correlation, causation)
        event, problem, erased = self.body(kind, schema_number, data)
        # Fifteen keywords Python passes almost as fast as positions; of more it builds a dict, for every event.
        delivery = Delivery(
            source=source,
            id=name,
            type=kind,
            schema=schema_number,
            aggregate=aggregate,
            version=version_number,
            data=data,
            hash=self._hash(kind, schema_number, aggregate, version_number, data),
            stream=self._stream,
            seq=seq,
            subject=subject,
            event=event,
            problem=problem,
            time=moment,
            arrival=arrival,
        )
        delivery.received_us, delivery.published_ns = self._received_us(arrival), published_ns
        if delivered != 1 or used_fallback or erased:
            delivery.delivered, delivery.used_fallback, delivery.erased = delivered, used_fallback, erased
        delivery.correlation, delivery.causation = correlation, causation
        if fields[10] or fields[11] or fields[12] or fields[13]:
            delivery.traceparent, delivery.tracestate = trace_of(*fields[10:14])
        return delivery

    def _identified(
        self, fields: Fields, data: bytes, place: tuple[str | int | None, ...], subject: str
    ) -> tuple[str, str, bool]:
        source, name, used_fallback = self._identities.identify(fields, data, place)
        if used_fallback:
            self.unnamed = True
        elif self._trusted is not None and source != fields[1]:
            self._trusted.check(source, subject, "of its identity, which is the stream's name,")
        return source, name, used_fallback

    def _admitted(self, fields: Fields, data: bytes, subject: str) -> tuple[Fields, bytes]:
        """Return the envelope and the body, wherever they stand; refuse a source that may not speak here."""
        if fields[14] is not None and cloudevents_structured.is_structured(fields[14]):
            fields, data = self._unfold(fields[14], fields, data)
        if self._trusted is not None:
            self._trusted.check(fields[1] or self._stream, subject)
        return fields, data

    def _is_foreign(self, subject: str) -> bool:
        try:
            return self._match(subject) is None
        except ValueError:  # its pattern matched
            return False

    def _unfold(self, content_type: str, fields: Fields, body: bytes) -> tuple[Fields, bytes]:
        if bad := self._too_large(body) or self._fault(body):
            raise Refused(Reason.BODY, f"the body, which holds the envelope, {bad}")
        return cloudevents_structured.unfold(content_type, fields, self._heads.names, body)

    def _aggregate(self, subject: str, kind: str | None, name: str | None) -> str | None:
        try:
            found = self._match(subject)
        except ValueError:
            raise Refused(Reason.SUBJECT, "a token of the subject is not UTF-8") from None
        if found is None:
            raise Refused(Reason.SUBJECT, "the subject matches none of this consumer's")
        kind_token, name_token = found
        name = name_token if name is None else agreed("id", name, name_token)
        if name is None:
            return None
        kind = kind_token if kind is None else agreed("type", kind, kind_token)
        kind = self._kind if kind is None else kind
        if not name or "/" in kind:
            raise Refused(Reason.AGGREGATE, "the aggregate's id is empty, or its type holds a slash")
        return f"{kind}/{name}"

    def body(self, kind: str, schema: int, data: bytes) -> Body:
        """Return the event that a body holds, or what is wrong with it; neither if no handler declares its type, or if
        its key is gone, which is the third."""
        if bad := self._too_large(data):  # of an ignored type too: it may have to be parked
            return None, f"the body {bad}", False
        if kind not in self._known:
            return self._unknown()
        if bad := self._fault(data):
            return None, f"the body {bad}", False
        return self._decoded(kind, schema, data)

    def _unknown(self) -> Body:
        return None, "no handler declares its type" if self._policy.unknown == "fail" else None, False

    def _decoded(self, kind: str, schema: int, data: bytes) -> Body:
        """Return the same of a body whose size and depth are in order."""
        if kind not in self._known:
            return self._unknown()
        try:
            return self._decode(kind, schema, data), None, False
        except Erased:
            return None, None, True
        except RAISED as error:  # upcasters and types are a user's code
            if is_ours(error):
                raise
            return None, clean(f"{type(error).__name__}: {error}"), False

    def decodes(self, kind: str) -> bool:
        """Return whether the body of an event of this type is looked at."""
        return kind in self._known or self._policy.unknown == "fail"

    def stored(self, row: Row, head: bytes | None, body: bytes) -> bytes | None:
        """Return the data of a message read from the stream again, if it is still the event of this row."""
        try:
            fields = self._heads.read(head)
            if fields[14] is not None and cloudevents_structured.is_structured(fields[14]):
                _, body = self._unfold(fields[14], fields, body)
        except (HeaderError, Refused):
            return None
        place = row["type"], row["event_schema"], row["aggregate"], row["version"]
        return body if self._hashed_somehow(place, body, row["hash"]) else None

    def is_same(self, delivery: Delivery, digest: bytes) -> bool:
        """Return whether an event with the identity of this one, settled under the hash `digest`, was this one."""
        if delivery.hash == digest:
            return True
        place = delivery.type, delivery.schema, delivery.aggregate, delivery.version
        return self._hashed_somehow(place, delivery.data, digest)

    def _hashed_somehow(
        self, place: tuple[str, int, str | None, int | None], data: bytes, digest: bytes
    ) -> bool:
        """Return whether it is the hash of this event by any way of the setting `hash`, which may have changed."""
        forms = {data, canonical(data, self._policy.max_depth)}
        return any(event_hash(*place, form) == digest for form in forms)

    def _too_large(self, data: bytes) -> str | None:
        if len(data) <= self._policy.max_event_bytes:
            return None
        return f"has {len(data)} bytes, more than the {self._policy.max_event_bytes} of max_event_bytes"

    def _canonical_digest(
        self, kind: str, schema: int, aggregate: str | None, version: int | None, data: bytes
    ) -> bytes:
        if self._examined is not None and self._examined[0] is data:
            return event_hash(kind, schema, aggregate, version, self._examined[2])
        return event_hash(kind, schema, aggregate, version, canonical(data, self._policy.max_depth))

    def _received_us(self, arrival: Arrival) -> int:
        if arrival.received > self._epoch_until:  # the wall clock may be set while we run
            self._epoch, self._epoch_until = time.time() - clock.now(), arrival.received + 1
        return int((arrival.received + self._epoch) * 1_000_000)

    def _unreadable(
        self,
        arrival: Arrival,
        seq: int,
        delivered: int,
        reason: Reason,
        detail: str,
        known: Known | None = None,
    ) -> Unreadable:
        data = arrival.data
        source, name, aggregate, version = self._as_far_as_known(arrival) if known is None else known
        return Unreadable(
            reason=reason,
            detail=clean(detail),
            stream=self._stream,
            seq=seq,
            subject=kept_subject(arrival.subject),
            headers=arrival.head,
            data=data if self._too_large(data) is None else data[:KEPT_BYTES],
            size=len(data),
            hash=data_hash(data),
            received_us=self._received_us(arrival),
            delivered=delivered,
            arrival=arrival,
            source=source,
            id=name,
            aggregate=aggregate,
            version=version,
        )

    def _as_far_as_known(self, arrival: Arrival) -> Known:
        """Return source, id, aggregate and version, each if it is there and in order: where it may be missed, say
        so."""
        try:
            fields = self._heads.read(arrival.head)
        except HeaderError:
            fields = NOTHING
        aggregate, version = None, None
        with suppress(Refused):
            aggregate = self._aggregate(arrival.subject, fields[4], fields[5])
        with suppress(Refused):
            version = None if fields[6] is None else number(fields[6], MOST_VERSION, Reason.VERSION)
        name, source = fields[:2]
        return kept(source, TEXT_BYTES), kept(name, ID_BYTES), kept(aggregate, TEXT_BYTES), version
