"""One call of `record`, checked before anything is stored; and what it means that it came second. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from projectionist.core.aggregates import AggregateError, parted
from projectionist.core.cloudevents import MOST_VERSION
from projectionist.core.content_hash import event_hashes
from projectionist.outbox.intents.keys import frozen_body
from projectionist.outbox.publishing.draft import Draft, PublishError, draft_event
from projectionist.outbox.recording.recorded import EventReused, Recorded, VersionConflict


class EventStream(Protocol):
    """A declared stream, as far as recording needs it."""

    @property
    def name(self) -> str:
        """Return the stream's name on the server."""

    @property
    def source(self) -> str:
        """Return the name of the producer."""

    @property
    def subject(self) -> str:
        """Return the template of subjects."""

    def subject_for(self, aggregate: str) -> str:
        """Return the subject of an aggregate's events."""


StreamOf = Callable[[Any], EventStream]
"""The stream of a class of events; raises where there is none."""


class StandingEvent(msgspec.Struct, frozen=True):
    """What stands under an id of a call: its version, and whether it is the same event."""

    version: int
    same: bool


class RecordCall(msgspec.Struct, frozen=True):
    """Events of one aggregate that are to be recorded behind the version `expected`."""

    stream: EventStream
    aggregate: str
    expected: int
    events: tuple[Any, ...]
    id: str | None
    correlation: str | None

    @property
    def version(self) -> int:
        """Return the version of the last event."""
        return self.expected + len(self.events)

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids: by place in the aggregate, or the call's own, numbered from the second event on."""
        numbers = range(1, len(self.events) + 1)
        if self.id is None:
            return tuple(f"{self.aggregate}:{self.expected + n}" for n in numbers)
        return tuple(self.id if n == 1 else f"{self.id}:{n}" for n in numbers)

    def drafts(self) -> list[Draft]:
        """Draft the events. Raises PublishError for one that no consumer could read."""
        return [
            draft_event(
                event,
                source=self.stream.source,
                subject_for=self.stream.subject_for,
                id=identity,
                aggregate=self.aggregate,
                version=self.expected + n,
                correlation=self.correlation,
            )
            for n, (event, identity) in enumerate(zip(self.events, self.ids, strict=True), 1)
        ]

    def recorded(
        self,
        version: int | None = None,
        *,
        sequence: int | None = None,
        token: str | None = None,
        repeated: bool = False,
    ) -> Recorded:
        """Return the answer where the events stand up to `version`."""
        version = self.version if version is None else version
        last: Any = self.events[-1]
        kind, schema = type(last).__event_type__, type(last).__event_schema__
        return Recorded(
            stream=self.stream.name,
            source=self.stream.source,
            aggregate=self.aggregate,
            version=version,
            ids=self.ids,
            sequence=sequence,
            token=token,
            hashes=event_hashes(kind, schema, self.aggregate, version, frozen_body(last)),
            repeated=repeated,
        )


def refuse_untyped(event: object) -> None:
    """Raise PublishError for what is no event, such as the class in place of an instance of it."""
    if not getattr(type(event), "__event_type__", None):
        raise PublishError(
            f"{event!r:.80} is no event with a type",
            remedy='Give an instance of a class that is an Event with a type=, or is under @event(type="…")',
        )


def prepare_call(
    stream_of: StreamOf,
    aggregate: str,
    events: Sequence[Any],
    *,
    expected_version: int,
    id: str | None,  # noqa: A002 the envelope's word
    correlation: str | None,
) -> RecordCall:
    """Check what is asked for. Raises PublishError for what cannot be recorded."""
    if not events:
        raise PublishError("there is no event to record", remedy='Write record("order/7", OrderPaid(), …)')
    for event in events:
        refuse_untyped(event)
    try:
        parted(aggregate)
    except AggregateError as error:
        raise PublishError(error.message, remedy=error.remedy) from None
    if type(expected_version) is not int or not 0 <= expected_version <= MOST_VERSION - len(events):
        raise PublishError(
            f"expected_version={expected_version!r} is no version that an aggregate may have reached",
            remedy="Give the version of its newest event, 0 for an aggregate without any",
        )
    if id == "":
        raise PublishError("the id is empty", remedy="Leave it out, or name what happened")
    streams = {stream.name: stream for stream in (stream_of(type(event)) for event in events)}
    if len(streams) > 1:
        raise PublishError(
            f"these events go to several streams: {', '.join(sorted(streams))}",
            remedy="The versions of an aggregate count in one stream: record them by a call each",
        )
    (stream,) = streams.values()
    return RecordCall(
        stream=stream,
        aggregate=aggregate,
        expected=expected_version,
        events=tuple(events),
        id=id,
        correlation=correlation,
    )


def judge_call(
    call: RecordCall, actual: int, standing: Sequence[StandingEvent | None], note: str = ""
) -> Recorded:
    """Return what an earlier call under the same id has recorded; raises VersionConflict or EventReused otherwise.

    Without an id of its own a call that found its events recorded cannot tell its own earlier try from somebody else's
    equal event, which is another fact: it is a conflict that says so.
    """
    there = [one for one in standing if one is not None]
    whole = len(there) == len(call.events) and all(one.same for one in there)
    found = call.recorded(there[-1].version, repeated=True) if whole else None
    if call.id is not None and there:
        if found is not None:
            return found
        raise EventReused(
            f"{call.stream.source} has recorded other events under the id {call.id!r}, or not all of these",
            remedy="The id names one call with its events, of one aggregate: another one needs another id",
        )
    raise VersionConflict(call.aggregate, call.expected, actual, found, note)
