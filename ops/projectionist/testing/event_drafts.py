"""An event as a stream would hold it: drafted as a producer drafts it, and handed over as the broker does."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core import clock
from projectionist.core.aggregates import parted
from projectionist.core.nats.fast_client import Arrival
from projectionist.outbox.publishing.draft import Draft, Producer
from projectionist.outbox.recording.call import refuse_untyped
from projectionist.projections.event import AnyEvent

if TYPE_CHECKING:
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.projections.compiled.subject_pattern import SubjectPattern

SOURCE = "tests"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
"""When events happen unless a test says otherwise: the same in every run."""
FILLER = "x"
"""What stands in a subject where a pattern has a wildcard."""


class OldEvent(msgspec.Struct, frozen=True):
    """The body of an event as an older producer wrote it: `OldEvent("order.placed", {"total": 5}, schema=1)`."""

    type: str
    body: Mapping[str, Any]
    schema: int = 1


class EventPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The place of an event, and what its envelope says beside."""

    aggregate: str
    version: int
    source: str = SOURCE
    time: datetime = NOON
    correlation: str | None = None
    causation: str | None = None


def drafted(event: AnyEvent | OldEvent, at: EventPlace, subject: str) -> Draft:
    """Draft an event under the id `type/id:version`. Raises PublishError for one that no consumer could read."""
    if not isinstance(event, OldEvent):
        refuse_untyped(event)
    body, kind, schema = (
        (dict(event.body), event.type, event.schema) if isinstance(event, OldEvent) else (event, None, None)
    )
    return Producer(source=at.source, subject=subject).draft(
        body,
        aggregate=at.aggregate,
        version=at.version,
        id=f"{at.aggregate}:{at.version}",
        type=kind,
        schema=schema,
        time=at.time,
        correlation=at.correlation,
        causation=at.causation,
    )


def subject_of(definition: ConsumerDefinition, aggregate: str) -> str:
    """Return a subject under which a consumer reads the events of this aggregate."""
    kind, name = parted(aggregate)
    patterns = definition.subjects.patterns
    likely = [one for one in patterns if kind in one.text.split(".")] or patterns
    return next(
        (found for one in likely if (found := _filled(one, kind, name))), _filled(likely[0], "x", "x")
    )


def _filled(pattern: SubjectPattern, kind: str, name: str) -> str:
    text = pattern.subject_for(kind, name) or ("" if pattern.names_aggregate else pattern.text)
    return ".".join(FILLER if word in ("*", ">", "{type}") else word for word in text.split("."))


def arrival_of(draft: Draft, stream: str, seq: int) -> Arrival:
    """Return the arrival of a draft that the stream holds at this sequence."""
    lines = ["NATS/1.0", *(f"{name}: {value}" for name, value in draft.headers.items()), "", ""]
    return Arrival(
        subject=draft.subject,
        reply=f"$JS.ACK.{stream}.{SOURCE}.1.{seq}.{seq}.{int(NOON.timestamp())}000000000.0".encode(),
        head="\r\n".join(lines).encode(),
        data=draft.data,
        received=clock.now(),
    )
