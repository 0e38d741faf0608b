"""Statements that are put off: equal ones run at once, in an order that no table can tell from their own. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

MOST_ROWS = 10_000
"""So many are put off at most."""
_FIXED = frozenset({bool, bytes, date, datetime, Decimal, float, int, str, time, timedelta, UUID, type(None)})
"""Types of values that stay as they are, whoever holds them."""

Arguments = tuple[Any, ...]


class QueuedStatement(msgspec.Struct):
    """One text with the arguments of each time that it was asked for."""

    text: str
    target: str | None
    """The only table that it is about, where that is sure: it may change places with a statement about another."""
    rows: list[Arguments]
    first: int
    """The place of the first event that asked for it, and of the last."""
    last: int


class StatementQueue:
    """The statements of a segment that have not run yet."""

    def __init__(self) -> None:
        self.size = 0
        self._queued: list[QueuedStatement] = []

    def put(self, text: str, target: str | None, rows: Sequence[Arguments], place: int) -> None:
        """Add what the event at `place` asks for: to an equal statement, if all that stands behind that one may."""
        self.size += len(rows)
        for queued in reversed(self._queued):
            if queued.text == text:
                queued.rows += rows
                queued.last = max(queued.last, place)
                return
            if target is None or queued.target is None or queued.target == target:
                break
        self._queued.append(
            QueuedStatement(text=text, target=target, rows=list(rows), first=place, last=place)
        )

    def take(self) -> list[QueuedStatement]:
        """Return what is to be run now, in this order, and be empty."""
        taken, self._queued, self.size = self._queued, [], 0
        return taken


def fixed(args: Sequence[Any]) -> Arguments | None:
    """Return arguments that nobody can change any more; None where that is not sure."""
    if type(args) not in (tuple, list):
        return None
    if all(type(one) in _FIXED for one in args):
        return tuple(args)
    kept = [_fixed(one) for one in args]
    return None if any(one is _CHANGING for one in kept) else tuple(kept)


_CHANGING = object()


def _fixed(value: Any) -> object:
    if type(value) in _FIXED or isinstance(value, Enum):
        return value
    if type(value) in (list, tuple) and all(type(one) in _FIXED for one in value):
        return list(value)
    return _CHANGING
