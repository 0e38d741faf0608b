"""The subject under which a stream stores a message: its transform may rename the published one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.core.nats.subject_relations import ALL, covers, mapped

if TYPE_CHECKING:
    from nats.js.api import StreamConfig


def stored_as(subject: str, stream: StreamConfig) -> str:
    """Return the stored subject, by the stream's configuration now; a token that cannot be told is a wildcard."""
    transform = stream.subject_transform
    if transform is None or not transform.dest:
        return subject
    src = transform.src or ALL
    return mapped(subject, src, transform.dest) if covers(src, subject) else subject
