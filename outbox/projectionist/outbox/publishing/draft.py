"""Drafts of events: identity, headers, bytes. Pure, so that a draft can be sent again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from projectionist.core import cloudevents, json_limits
from projectionist.core.aggregates import AggregateError, parted
from projectionist.core.errors import ProjectionistError
from projectionist.core.instances import DataclassLike, ModelLike
from projectionist.core.nats import subject_tokens
from projectionist.core.printable_text import ID_BYTES, TEXT_BYTES, flaw
from projectionist.outbox.intents.keys import frozen_body
from projectionist.outbox.publishing.event_ids import Part, business_key

Drafted: TypeAlias = msgspec.Struct | DataclassLike | ModelLike | dict[str, Any] | bytes
"""An event, or a body whose type the caller gives."""

_MOST = {"schema": cloudevents.MOST_SCHEMA, "version": cloudevents.MOST_VERSION}


class PublishError(ProjectionistError):
    """The event cannot be published as it is; nothing was stored, unless a kind of this error says otherwise."""


class Draft(msgspec.Struct, frozen=True):
    """An event with its identity, ready to be sent any number of times."""

    subject: str
    headers: dict[str, str]
    data: bytes


class FrozenPublish(msgspec.Struct, frozen=True):
    """The frozen part of a publish, beside its content, as the outbox keeps it."""

    subject: str
    headers: dict[str, str]


class Producer:
    """Drafts the events of one producer, named by `source`; `subject` is a pattern like `shop.order.{id}`."""

    def __init__(self, *, source: str, subject: str) -> None:
        if not source:
            raise PublishError("the source is empty", remedy="Name the producer: source='/shop'")
        _check("source", source, TEXT_BYTES)
        self._source, self._pattern = source, subject

    def draft(
        self,
        event: Drafted,
        *,
        aggregate: str,
        version: int | None,
        id: str | None = None,  # noqa: A002 the envelope's word
        identity: str | tuple[str, ...] | None = None,
        type: str | None = None,  # noqa: A002 the envelope's word
        schema: int | None = None,
        time: datetime | None = None,
        correlation: str | None = None,
        causation: str | None = None,
        expected_last_subject_sequence: int | None = None,
    ) -> Draft:
        """Draft an event to be sent. Its id is `id`, or made of the fields that `identity` names: give one.

        `aggregate` is written `type/id`, as everywhere ("/7" for one without a type), `version` is None only for events
        that have no order. Type and schema come from the event's class. The trace that is going on here goes with it.
        Raises PublishError for an event that consumers would put into quarantine, or could not decode.
        """
        return draft_event(
            event,
            source=self._source,
            subject_for=self._subject_for,
            id=_identity(event, _kind(event, type), id, identity),
            aggregate=aggregate,
            version=version,
            type=type,
            schema=schema,
            time=time,
            correlation=correlation,
            causation=causation,
            expected_last_subject_sequence=expected_last_subject_sequence,
        )

    def _subject_for(self, written: str) -> str:
        aggregate_type, aggregate = _parted(written)
        values = {"{id}": aggregate, "{aggregate}": aggregate, "{type}": aggregate_type}
        words = [
            subject_tokens.encoded(values[word]) if word in values else word
            for word in self._pattern.split(".")
        ]
        if not all(words) or {"*", ">"} & set(words):
            raise PublishError(
                f"{self._pattern} gives no subject for aggregate {aggregate_type!r}, {aggregate!r}",
                remedy="Name every token: literals, {id} and {type}",
            )
        subject = ".".join(words)
        _check("subject", subject, TEXT_BYTES)
        return subject


def draft_event(
    event: Drafted,
    *,
    source: str,
    subject_for: Callable[[str], str],
    id: str,  # noqa: A002 the envelope's word
    aggregate: str,
    version: int | None,
    type: str | None = None,  # noqa: A002 the envelope's word
    schema: int | None = None,
    time: datetime | None = None,
    correlation: str | None = None,
    causation: str | None = None,
    expected_last_subject_sequence: int | None = None,
) -> Draft:
    """Draft an event, whoever sends it: the one place where an envelope is made. Raises PublishError, as `draft` does.

    `subject_for` returns the subject of an aggregate, which is written `type/id`.
    """
    aggregate_type, name = _parted(aggregate)
    fields: dict[str, str | None] = {
        "id": _checked_id(id),
        "source": source,
        "type": _kind(event, type),
        "schema": str(schema or getattr(event, "__event_schema__", 1)),
        "aggregate_type": aggregate_type or None,
        "aggregate": name,
        "version": None if version is None else str(version),
        "time": _written(time or datetime.now(UTC)),
        "correlation": correlation,
        "causation": causation,
    }
    _check_fields(fields)
    subject = subject_for(aggregate)
    if subject.startswith("$"):
        raise PublishError(
            f"the subject {subject} begins with $, as the server's own subjects do",
            remedy="Let the pattern begin with a word of its own: shop.{type}.{id}",
        )
    headers = _headers(fields, expected_last_subject_sequence)
    data = _body(event)
    if type is None and schema is None:
        _check_body(event, data)
    return Draft(subject, headers, data)


def _kind(event: object, type: str | None) -> str:  # noqa: A002 the envelope's word
    kind = type or getattr(event, "__event_type__", None)
    if not kind:
        raise PublishError("the event has no type", remedy="Give type=, or an Event class that declares it")
    return str(kind)


def _parted(aggregate: str) -> tuple[str, str]:
    try:
        return parted(aggregate)
    except AggregateError as error:
        raise PublishError(error.message, remedy=error.remedy) from None


def _headers(fields: dict[str, str | None], expected_sequence: int | None) -> dict[str, str]:
    headers = cloudevents.compose(fields)
    # Streams compare this header alone, and two sources may use the same ids.
    headers[cloudevents.MESSAGE_ID] = (
        f"{headers[cloudevents.DEFAULTS['source']]} {headers[cloudevents.DEFAULTS['id']]}"
    )
    if expected_sequence is not None:
        headers[cloudevents.EXPECTED_SEQUENCE] = str(expected_sequence)
    TraceContextTextMapPropagator().inject(headers)
    return headers


def _check(what: str, text: object, most: int) -> None:
    if not isinstance(text, str):
        raise PublishError(
            f"the {what} {text!r:.80} is no text but a {type(text).__name__}",
            remedy=f"Write {what}=str(…)",
        )
    if bad := flaw(text, most):
        raise PublishError(f"the {what} {bad}")


def _check_fields(fields: Mapping[str, str | None]) -> None:
    """Refuse fields that a reader would refuse."""
    for name, value in fields.items():
        if value is not None and (most := _MOST.get(name)):
            if not 1 <= int(value) <= most:
                raise PublishError(f"the {name} {value} is not a number from 1 to {most}")
        elif value is not None:
            _check(name, value, TEXT_BYTES)
    _check("aggregate", f"{fields['aggregate_type'] or ''}/{fields['aggregate']}", TEXT_BYTES)


def _identity(event: object, kind: str, id: str | None, identity: str | tuple[str, ...] | None) -> str:  # noqa: A002
    if (id is None) == (identity is None):
        raise PublishError(
            f"an event of type {kind} needs either id= or identity=",
            remedy="Give the id the business knows, or the fields that make it: identity=('shop', 'order_id')",
        )
    if id is not None:
        return id
    names = (identity,) if isinstance(identity, str) else identity or ()
    return business_key(kind, *(_part(event, name) for name in names))


def _checked_id(id: str) -> str:  # noqa: A002 the envelope's word
    if not id:
        raise PublishError("the id is empty")
    _check("id", id, ID_BYTES)
    return id


def _part(event: object, name: str) -> Part:
    value = event.get(name) if isinstance(event, dict) else getattr(event, name, None)
    if not isinstance(value, str | int):
        raise PublishError(
            f"identity= names {name}, and the event has no text or whole number there",
            remedy="Name fields that are always there, or give id=",
        )
    return value


def _check_body(event: object, data: bytes) -> None:
    """Refuse a body that consumers with the same class could not read: msgspec checks types when it reads."""
    read = getattr(event.__class__, "__event_decode__", None)
    if read is None:
        return
    try:
        read(data)
    except msgspec.MsgspecError as error:
        raise PublishError(
            f"no consumer could read this {event.__class__.__name__}: {error}",
            remedy="Give its fields values of the types that the class declares",
        ) from error


def _body(event: Any) -> bytes:
    if isinstance(event, bytes):
        return event
    try:
        body = frozen_body(event)
    except ValueError as error:
        raise PublishError(str(error)) from error
    if bad := json_limits.bad_text(body):
        raise PublishError(
            f"no consumer could read this {type(event).__name__}: its body {bad}",
            remedy="Take the character out where the text comes in",
        )
    return body


def _written(time: datetime) -> str:
    if time.tzinfo is None:
        raise PublishError("time= has no time zone", remedy="Give an aware datetime: datetime.now(UTC)")
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
