"""Two forms of one row: whether they are the same, and which event made the difference. Pure."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from projectionist.projections.tables.table import Table

Row = tuple[Any, ...]

UNTOLD: Any = object()
"""In place of a value that one of two rows does not have: it is compared with nothing."""


def differing(table: Table, one: Row, other: Row) -> list[int]:
    """Return the places of the columns whose values differ, as PostgreSQL compares them: 1.5 is 1.50."""
    return [
        at
        for at, column in enumerate(table.columns)
        if one[at] != other[at]
        and UNTOLD not in (one[at], other[at])
        and not (column.kind is Decimal and _equal(one[at], other[at]))
    ]


def same(table: Table, one: Row | None, other: Row | None) -> bool:
    """Return whether two rows are the same, or both are not there."""
    if one == other:
        return True
    return one is not None and other is not None and not differing(table, one, other)


def _equal(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and Decimal(one) == Decimal(other)


class FirstDifference:
    """Told of each event of a row in turn, and then of the row that came of them: which event made the difference."""

    def __init__(self, table: Table, live: Row | None) -> None:
        """Take what is compared. `live`: the row as it is before any event is told; where it moves meanwhile nothing
        can be said."""
        self._table = table
        self._live = live
        self._events = 0
        self._first: str | None = None
        self._matches = live is None
        self._whole: str | None = None
        self._columns: dict[int, tuple[int, str | None]] = {}
        """Of each column: behind how many events it was last as it is live, and the event after that."""

    def note(self, name: str, row: Row | None) -> None:
        """Note one more event, by name, and the row behind it."""
        if self._matches:
            self._whole = name
        for at, (number, after) in self._columns.items():
            if number == self._events and after is None:
                self._columns[at] = (number, name)
        self._first = self._first or name
        self._events += 1
        self._matches = same(self._table, row, self._live)
        if self._matches:
            self._whole = None
        if row is not None and self._live is not None:
            wrong = set(differing(self._table, row, self._live))
            for at in range(len(row)):
                if at not in wrong:
                    self._columns[at] = (self._events, None)

    def first_difference(self, live: Row | None, folded: Row | None) -> str | None:
        """Return the first event behind which the live row is another one: as if it had not been applied rightly."""
        if live != self._live:
            return None
        if self._whole is not None or self._first is None:
            return self._whole
        if live is None or folded is None:
            return self._first
        wrong = differing(self._table, live, folded)
        return min((self._columns.get(at, (0, self._first)) for at in wrong), default=(0, None))[1]
