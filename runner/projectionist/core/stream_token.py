"""One event's place in its stream, as a text that a producer passes on: `stream:created-hash:sequence`. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec

from projectionist.core.digest import digest
from projectionist.core.errors import ProjectionistError

_WRITTEN = re.compile(r"([^\s.*>]+):([0-9a-f]{8}):([1-9][0-9]{0,18})", re.ASCII)


class TokenError(ProjectionistError, ValueError):
    """The text is no token of an event in a stream."""


class StreamToken(msgspec.Struct, frozen=True):
    """A sequence of one stream, which is not that of a stream of the same name that was made at another time."""

    stream: str
    birth: str
    """The digest of when the stream was made; empty where that was not said."""
    sequence: int

    def __str__(self) -> str:
        return f"{self.stream}:{self.birth}:{self.sequence}"

    def is_of(self, created: datetime) -> bool:
        """Return whether it may be one of the stream that was made at this time."""
        return self.birth in ("", birth(created))

    @classmethod
    def parse(cls, text: str) -> StreamToken:
        """Read what `str` has written. Raises TokenError."""
        found = _WRITTEN.fullmatch(text)
        if found is None:
            raise TokenError(
                f"{text!r:.80} is no token of an event, which reads stream:created-hash:sequence",
                remedy="Pass on what `publisher.token(published)` or `recorded.token` said, as it is",
            )
        return cls(found[1], found[2], int(found[3]))


def birth(created: datetime) -> str:
    """Return what tells a stream from those that had its name before."""
    return digest(created.astimezone(UTC).isoformat())
