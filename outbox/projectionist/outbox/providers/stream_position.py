"""The end of a stream before a first attempt, as a hint for lookups: the message can only come after it. Pure.

A sequence alone does not say so: a stream may lose its end (a power cut before it was on disk) and be written on, and
then the same sequence is another message, or none. So a hint names the message there, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec
from nats.js.api import RawStreamMsg, StreamInfo

from projectionist.core.cloudevents import MESSAGE_ID
from projectionist.outbox.intents.keys import body_hash

if TYPE_CHECKING:
    from projectionist.outbox.providers.base import Request


class StreamPosition(msgspec.Struct, frozen=True):
    """A stream, by its creation and its transform, the sequence it had reached, and the message there."""

    created: str
    seq: int
    what: str
    """The id of the message, or the hash of one without; "" where it is unknown."""

    @classmethod
    def read(cls, text: str | None) -> Self | None:
        """Parse the text of a hint; None if it is none."""
        created, *rest = (text or "").rsplit("|", 2)
        return cls(created, int(rest[0]), rest[1]) if len(rest) == 2 and rest[0].isdigit() else None

    def __str__(self) -> str:
        return f"{self.created}|{self.seq}|{self.what}"


def before(request: Request, info: StreamInfo) -> StreamPosition | None:
    """Return the hint of the first attempt. Where it was lost with the attempt: the beginning of a stream that is
    older than the intent; None where no position is known."""
    if request.lookup_hint is None and info.created is not None and info.created <= request.created:
        return StreamPosition(created(info), 0, "")
    return StreamPosition.read(request.lookup_hint)


def created(info: StreamInfo) -> str:
    """Write a stream's creation time, and its subject transform: messages are stored under renamed subjects."""
    renames = info.config.subject_transform
    if renames is None:
        return str(info.created)
    return f"{info.created} {body_hash(msgspec.json.encode([renames.src, renames.dest])).hex()[:16]}"


def what(message: RawStreamMsg) -> str:
    """Return the name of a message in a hint."""
    own = (message.headers or {}).get(MESSAGE_ID)
    stored = f"{message.seq} {message.subject} {message.time} ".encode()
    return named(own) if own else "=" + body_hash(stored + (message.data or b"")).hex()


def named(key: str) -> str:
    """Return the name in a hint of a message with this id."""
    return key if key.isascii() and key.isalnum() else body_hash(key.encode()).hex()
