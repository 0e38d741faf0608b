"""Which subjects the messages that come into a stream can have, by its configuration. Pure.

What the stream holds already may have others: a configuration changes, and its messages stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.core.nats.subject_relations import ALL, covers, mapped, overlap

if TYPE_CHECKING:
    from projectionist.runner.jetstream.api import Origin, StreamConfig, Transform


def subjects(stream: StreamConfig) -> list[str]:
    """Return the patterns, at least one of which every new message matches."""
    taken = set(stream.subjects or ())
    for origin in [*(stream.sources or ()), *([stream.mirror] if stream.mirror is not None else ())]:
        taken |= _sourced(origin)
    transform = stream.subject_transform
    found = taken if transform is None else {made for one in taken for made in _transformed(one, transform)}
    return sorted(found) or [ALL]


def takes(stream: StreamConfig, subject: str) -> bool:
    """Return whether a message of this subject (it may hold wildcards) can come in now."""
    return any(overlap(each, subject) for each in subjects(stream))


def _sourced(origin: Origin) -> set[str]:
    """Return what comes from another stream: what its filter or one of its transforms takes.

    Which subjects there are, only the other stream's own configuration tells, and that may be out of reach.
    """
    if origin.subject_transforms:
        return {made for one in origin.subject_transforms for made in _transformed(one.src or ALL, one)}
    return {origin.filter_subject or ALL}


def _transformed(pattern: str, transform: Transform) -> set[str]:
    """Return what a pattern becomes; where only a part of it is led away, the rest stays possible."""
    src, dest = transform.src or ALL, transform.dest
    if not dest or not overlap(src, pattern):
        return {pattern}
    if covers(src, pattern):
        return {mapped(pattern, src, dest)}
    return {pattern, mapped(src, src, dest)}
