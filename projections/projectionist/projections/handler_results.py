"""Answers of handlers beside Intents: Delete as a value, Retry and Refuse as exceptions."""

from __future__ import annotations

import math

import msgspec


class Delete(msgspec.Struct, frozen=True):
    """Return or yield it to delete the row. A later event of the same key starts again from the defaults."""


class Retry(Exception):
    """Raise it when the event cannot be handled yet: tried again after `after` seconds, within the budget."""

    def __init__(self, after: float = 0.0, reason: str = "") -> None:
        if not (math.isfinite(after) and after >= 0):
            raise ValueError(f"Retry(after={after!r}): write the seconds to wait, zero or more")
        super().__init__(reason or f"retry after {after:g} s")
        self.after = float(after)


class Refuse(Exception):
    """Raise it when the event must not be handled: its aggregate waits for new code or a person."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
