"""Whether a stream stores what is published, and under which subject: its transform may rename the published one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.core.nats.subject_relations import ALL, covers, mapped

if TYPE_CHECKING:
    from nats.js.api import StreamConfig


DECLARE_ORIGIN = "Declare the stream that it mirrors; consumers may read the mirror, by its name"


def mirrored(stream: StreamConfig) -> str | None:
    """Say of a mirror that it takes no events of its own: what is published goes elsewhere. None for another stream."""
    if stream.mirror is None:
        return None
    return f"the stream {stream.name} is a mirror of {stream.mirror.name}, and takes no events of its own"


def stored_as(subject: str, stream: StreamConfig) -> str:
    """Return the stored subject, by the stream's configuration now; a token that cannot be told is a wildcard."""
    transform = stream.subject_transform
    if transform is None or not transform.dest:
        return subject
    src = transform.src or ALL
    return mapped(subject, src, transform.dest) if covers(src, subject) else subject
