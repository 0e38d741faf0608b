"""Where the end of a stream was before a first attempt: the message can only come after it. Pure.

A sequence alone does not say so: a stream may lose its end (a power cut before it was on disk) and be written on, and
then the same sequence is another message, or none. So a mark says which message stood there.
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
    """A stream, by its creation and its transform, the sequence it had reached, and what stood there."""

    created: str
    seq: int
    what: str
    """The id of the message, or the hash of one without; "" where nothing is known of it."""

    @classmethod
    def read(cls, text: str | None) -> Self | None:
        """From the text of a mark; None if it is none."""
        created, *rest = (text or "").rsplit("|", 2)
        return cls(created, int(rest[0]), rest[1]) if len(rest) == 2 and rest[0].isdigit() else None

    def __str__(self) -> str:
        return f"{self.created}|{self.seq}|{self.what}"


def before(request: Request, info: StreamInfo) -> StreamPosition | None:
    """What was noted before the first attempt. Where that was lost with it: the beginning of a stream that is older
    than the intent; None where nobody knows."""
    if request.mark is None and info.created is not None and info.created <= request.created:
        return StreamPosition(created(info), 0, "")
    return StreamPosition.read(request.mark)


def created(info: StreamInfo) -> str:
    """When a stream was made, as marks say it, and how it renames subjects: what came then stands under those."""
    renames = info.config.subject_transform
    if renames is None:
        return str(info.created)
    return f"{info.created} {body_hash(msgspec.json.encode([renames.src, renames.dest])).hex()[:16]}"


def what(message: RawStreamMsg) -> str:
    """How a mark names a message."""
    own = (message.headers or {}).get(MESSAGE_ID)
    stored = f"{message.seq} {message.subject} {message.time} ".encode()
    return named(own) if own else "=" + body_hash(stored + (message.data or b"")).hex()


def named(key: str) -> str:
    """How a mark names a message by its id."""
    return key if key.isascii() and key.isalnum() else body_hash(key.encode()).hex()
