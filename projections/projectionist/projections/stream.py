"""Stream: where a producer's events go, declared once for who publishes, who reads, and `migrate --streams`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NoReturn

from projectionist.core.aggregates import AggregateError, parted
from projectionist.core.errors import DefinitionError
from projectionist.core.nats.subject_relations import overlap
from projectionist.core.nats.subject_tokens import is_stream_name
from projectionist.core.printable_text import TEXT_BYTES, flaw, is_printable
from projectionist.projections.compiled.subject_pattern import SubjectPattern
from projectionist.projections.event import AnyEvent, type_of

REPLICAS = range(1, 6)


class Stream:
    """One JetStream stream: `Stream("ORDERS", "orders.order.{id}", source="shop-api", events=[OrderPlaced])`.

    `subject` is the template of each event's subject: `{id}` stands for the aggregate's id, `{type}` for its type.
    `source` names the producer, `events` are those it publishes here; `subjects` are further ones that the stream
    takes, of other producers. What is not given of the rest is left to the server, and as it is where the stream is
    there: `replicas`, `max_age_s`, `max_bytes`, `duplicate_window_s`.
    """

    __slots__ = (
        "duplicate_window_s",
        "events",
        "filters",
        "max_age_s",
        "max_bytes",
        "name",
        "pattern",
        "replicas",
        "source",
        "subject",
    )

    def __init__(
        self,
        name: str,
        subject: str,
        *,
        source: str,
        events: Iterable[type[AnyEvent]] = (),
        subjects: Sequence[str] = (),
        replicas: int | None = None,
        max_age_s: float | None = None,
        max_bytes: int | None = None,
        duplicate_window_s: float | None = None,
    ) -> None:
        self.name = _check_name(name)
        self.subject = subject
        self.pattern = _template(name, subject)
        self.filters = _filters(name, self.pattern, subjects)
        """What the stream takes, as NATS writes it."""
        self.source = _source(name, source)
        self.events = _events(name, events)
        self.replicas = replicas
        self.max_age_s = max_age_s
        self.max_bytes = max_bytes
        self.duplicate_window_s = duplicate_window_s
        _check_options(self)

    def __repr__(self) -> str:
        return f"Stream({self.name!r}, {self.subject!r})"

    def subject_for(self, aggregate: str) -> str:
        """Build the subject of an aggregate's events, which is written `type/id`. Raises AggregateError."""
        kind, identity = parted(aggregate)
        if found := flaw(aggregate, TEXT_BYTES):
            raise AggregateError(f"the aggregate {found}", remedy="Give it a shorter id of printable text")
        subject = self.pattern.subject_for(kind, identity)
        if subject is None:
            raise AggregateError(
                f"the aggregate {aggregate!r} has no type, which stream {self.name} puts into its subjects",
                remedy=f"Write type/id: 'order{aggregate}'",
            )
        if found := flaw(subject, TEXT_BYTES):
            raise AggregateError(f"the subject {found}", remedy="Give the aggregate a shorter id")
        return subject


def resolved(consumer: str, policy: Mapping[str, Any]) -> dict[str, Any]:
    """Put name and subjects into a class's keywords in place of a declared stream, which has to take the subjects."""
    stream = policy.get("stream")
    if not isinstance(stream, Stream):
        return dict(policy)
    subjects = policy.get("subjects") or stream.subject
    for text in (subjects,) if isinstance(subjects, str) else subjects:
        if not any(overlap(SubjectPattern(text).filter, mine) for mine in stream.filters):
            raise DefinitionError(
                f"{consumer} reads {text!r}, but stream {stream.name} takes {', '.join(stream.filters)}",
                remedy="Leave subjects= out, to read the stream's own; or add it to subjects= of the stream",
            )
    return {**policy, "stream": stream.name, "subjects": subjects}


def check_streams(streams: Iterable[Any]) -> tuple[Stream, ...]:
    """Return the streams of one app, if they share no name, no event type and no subject."""
    found = tuple(streams)
    for one in found:
        if not isinstance(one, Stream):
            raise DefinitionError(
                f"{one!r} is no stream",
                remedy='Write streams=[Stream("ORDERS", "orders.order.{id}", source="…")]',
            )
    for one, other in combinations(found, 2):
        _check_apart(one, other)
    return found


def _check_apart(one: Stream, other: Stream) -> None:
    if one.name == other.name:
        raise DefinitionError(
            f"two streams are called {one.name!r}", remedy="Declare it once, with all its events"
        )
    for kind in sorted(_types(one) & _types(other)):
        raise DefinitionError(
            f"events of type {kind!r} in {one.name} and in {other.name}",
            remedy="An event type belongs to one stream: take it out of the other's events=",
        )
    for mine in one.filters:
        for theirs in other.filters:
            if overlap(mine, theirs):
                raise DefinitionError(
                    f"the streams {one.name} and {other.name} overlap: both take {mine} or {theirs}",
                    remedy="A subject belongs to one stream of a server: begin each template with a word of its own",
                )


def _check_name(name: str) -> str:
    if not is_stream_name(name):
        raise DefinitionError(
            f"{name!r} is no stream's name", remedy='Write letters, digits, - and _: "ORDERS"'
        )
    return name


def _types(stream: Stream) -> set[str]:
    return {str(type_of(event)) for event in stream.events}


def _template(name: str, subject: str) -> SubjectPattern:
    pattern = SubjectPattern(subject)
    if not pattern.names_aggregate:
        _refuse(name, f"{subject!r} does not name {{id}}", "Name the aggregate's id: orders.order.{id}")
    if {"*", ">"} & set(subject.split(".")):
        _refuse(
            name,
            f"{subject!r} holds a wildcard, and an event goes to one subject",
            "Name every token; what others publish stands in subjects=",
        )
    return pattern


def _filters(name: str, template: SubjectPattern, subjects: Sequence[str]) -> tuple[str, ...]:
    if isinstance(subjects, str):
        _refuse(name, f"subjects={subjects!r} is a text", f"Write subjects=[{subjects!r}]")
    filters = tuple(one.filter for one in (template, *map(SubjectPattern, subjects)))
    for text in filters:
        if text.startswith("$"):
            _refuse(name, f"subjects under {text.split('.')[0]} are the server's own", "Begin with a word")
    for one, other in combinations(filters, 2):
        if overlap(one, other):
            _refuse(name, f"its subjects {one} and {other} overlap", "Leave out the narrower one")
    return filters


def _source(name: str, source: object) -> str:
    if not isinstance(source, str) or not source or not is_printable(source, TEXT_BYTES):
        _refuse(
            name,
            f"source={source!r}",
            f'Name the producer in printable text of at most {TEXT_BYTES} bytes: source="shop-api"',
        )
    return source


def _events(name: str, events: Iterable[type[AnyEvent]]) -> tuple[type[AnyEvent], ...]:
    if isinstance(events, type):
        _refuse(name, f"events={events.__name__}", f"Write events=[{events.__name__}]")
    found = tuple(events)
    seen: dict[str, type[AnyEvent]] = {}
    for event in found:
        kind = type_of(event)
        if kind is None:
            _refuse(
                name,
                f"{getattr(event, '__name__', repr(event))} is no event with a type",
                'Declare it: class OrderPlaced(Event, type="order.placed"), or @event(type="order.placed") above it',
            )
        if seen.setdefault(kind, event) is not event:
            _refuse(
                name,
                f"two classes of the type {kind!r}: {seen[kind].__name__} and {event.__name__}",
                "Publish one of them; what consumers read need not be the same class",
            )
    return tuple(seen.values())


def _check_options(stream: Stream) -> None:
    whole: dict[str, object] = {"replicas": stream.replicas, "max_bytes": stream.max_bytes}
    for word, value in whole.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            _refuse(stream.name, f"{word}={value!r}", "Write a whole number from 1, or leave it out")
    if stream.replicas is not None and stream.replicas not in REPLICAS:
        _refuse(stream.name, f"replicas={stream.replicas!r}", "NATS keeps 1 to 5 replicas; 3 is usual")
    seconds = {"max_age_s": stream.max_age_s, "duplicate_window_s": stream.duplicate_window_s}
    for word, length in seconds.items():
        if length is not None and (isinstance(length, bool) or not 0.1 <= length < math.inf):
            _refuse(stream.name, f"{word}={length!r}", "Write seconds from 0.1 on, or leave it out")
    age, window = stream.max_age_s, stream.duplicate_window_s
    if age is not None and window is not None and window > age:
        _refuse(
            stream.name,
            f"duplicate_window_s={window:g} is longer than it keeps a message, max_age_s={age:g}",
            "Make the window as short, or leave it out",
        )


def _refuse(name: str, what: str, remedy: str) -> NoReturn:
    raise DefinitionError(f"stream {name}: {what}", remedy=remedy)
