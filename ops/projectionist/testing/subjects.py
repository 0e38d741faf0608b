"""Which streams an app needs in a test, and where an event belongs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from projectionist.core.errors import DefinitionError
from projectionist.core.nats.subject_relations import covers, overlap
from projectionist.projections.compiled.subject_pattern import Subjects
from projectionist.projections.event import type_of
from projectionist.testing.event_drafts import SOURCE, OldEvent, subject_of

if TYPE_CHECKING:
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.projections.event import AnyEvent
    from projectionist.projections.stream import Stream
    from projectionist.runner.app import App


def subjects_of(definitions: Iterable[ConsumerDefinition], streams: Iterable[Stream]) -> dict[str, list[str]]:
    """Return the subjects of each stream: as it is declared, else those that the consumers read."""
    found = {one.name: list(one.filters) for one in streams}
    read: dict[str, list[str]] = {}
    for one in definitions:
        if one.stream not in found:
            read.setdefault(one.stream, []).extend(pattern.filter for pattern in one.subjects.patterns)
    return found | {name: _apart(filters) for name, filters in read.items()}


def _apart(filters: list[str]) -> list[str]:
    """Return subjects that let all of these through and do not overlap, as NATS demands of a stream."""
    unique = list(dict.fromkeys(filters))
    kept = [one for one in unique if not any(other != one and covers(other, one) for other in unique)]
    if any(one != other and overlap(one, other) for one in kept for other in kept):
        return [Subjects(kept).filter]
    return kept


def places_of(event: AnyEvent | OldEvent, aggregate: str, app: App) -> list[tuple[str, str]]:
    """Return subject and source under which an event belongs, one for each stream that has it."""
    kind = event.type if isinstance(event, OldEvent) else type_of(type(event))
    for stream in app.streams:
        if any(kind == type_of(one) for one in stream.events):
            return [(stream.subject_for(aggregate), stream.source)]
    readers: dict[str, list[ConsumerDefinition]] = {}
    for definition in app.definitions:
        if kind in definition.known:
            readers.setdefault(definition.stream, []).append(definition)
    if not readers:
        raise DefinitionError(
            f"no stream of the app has events of type {kind!r}, and no consumer handles it",
            remedy="Declare it in a Stream of the app, or give it a handler",
        )
    return [(_subject(those, aggregate), SOURCE) for those in readers.values()]


def _subject(readers: list[ConsumerDefinition], aggregate: str) -> str:
    """Return the subject that most of these read."""
    subjects = [subject_of(one, aggregate) for one in readers]
    return max(subjects, key=lambda subject: sum(one.subjects.reads(subject) for one in readers))
