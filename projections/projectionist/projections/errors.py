"""Errors of values that do not fit their column, and of bodies that do not fit their event."""

from __future__ import annotations

import re

from projectionist.core.errors import ProjectionistError

_QUOTING = re.compile(r"^(Invalid (?:enum )?value) .*?( - at `[^`]*`)?$", re.DOTALL)


class BadValue(ValueError):
    """A handler left a value that PostgreSQL would refuse or give back changed. It never quotes the value."""

    def __init__(self, reason: str, column: str = "") -> None:
        super().__init__(f"column {column!r} {reason}" if column else reason)
        self.reason = reason
        self.column = column

    def at(self, column: str) -> BadValue:
        """Return the same error, naming the column."""
        return BadValue(self.reason, column)


class Erased(Exception):
    """Raised by `decrypt=`: the key of this payload is gone for good. Its event is stepped over, and is no failure."""


class EventError(ProjectionistError, ValueError):
    """The body of an event does not fit its class. It names the place in the body, never its content."""


def without_value(error: Exception) -> str:
    """Return the message of an error about a document, without the value it may quote."""
    return _QUOTING.sub(lambda found: found[1] + (found[2] or ""), str(error))
