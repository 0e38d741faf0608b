"""The key of a read model: one column, or up to four, of which the leading ones tell groups of rows apart.

In database form a key of one column is its value, and one of several a tuple: whatever keeps keys only hashes,
compares and sorts them, in the order in which PostgreSQL sorts the columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from projectionist.projections.errors import BadValue
from projectionist.projections.tables.columns import Column

MOST_COLUMNS = 4
MOST_ROWS, MOST_AT_ONCE = 10_000, 50_000
"""Of one event, and of all events of a batch that have several."""


class Keys(msgspec.Struct, frozen=True, gc=False):
    """The keys of an event's rows, in the order in which its handler gets them."""

    listed: tuple[Any, ...]


class Prefix(msgspec.Struct, frozen=True, gc=False):
    """Values of the leading columns of a key: they stand for all rows that have them."""

    values: tuple[Any, ...]


class TableKey:
    """The columns of a key, in its order, and what is done with keys of rows."""

    __slots__ = ("_row", "columns", "names", "of", "places", "several")

    def __init__(self, columns: Sequence[Column], names: Sequence[str]) -> None:
        self._row = columns
        at = {column.name: place for place, column in enumerate(columns)}
        self.names = tuple(names)
        self.places = tuple(at[name] for name in names)
        """Where its columns stand in a row."""
        self.columns = tuple(columns[place] for place in self.places)
        self.several = len(self.columns) > 1
        self.of = itemgetter(*self.places)
        """From a row in database form to its key."""

    @property
    def first(self) -> Column:
        """Return the column that is the aggregate's id, where rows are an aggregate's own."""
        return self.columns[0]

    def leading(self, many: int) -> TableKey:
        """Return the key that its first columns would be."""
        return TableKey(self._row, self.names[:many])

    def parts(self, key: Any) -> Sequence[Any]:
        """Return the values of a key, one a column."""
        return key if self.several else (key,)

    def group(self, key: Any) -> Any:
        """Return the value of its first column, which all own rows of one aggregate have in common."""
        return key[0] if self.several else key

    def stored(self, value: object) -> Any:
        """Bring a key as a user writes it into database form. Raises BadValue, which names the column."""
        if not self.several:
            return self.first.stored(value)
        if not isinstance(value, tuple | list) or len(value) != len(self.columns):
            raise BadValue(f"takes {len(self.columns)} values: a tuple in this order", ", ".join(self.names))
        return tuple(column.stored(part) for column, part in zip(self.columns, value, strict=True))

    def selected(self, record: Iterable[Any]) -> Any:
        """Return the key that was read as the only columns of `record`."""
        values = tuple(record)
        return values if self.several else values[0]

    def arrays(self, keys: Collection[Any], prefixes: Collection[tuple[Any, ...]] = ()) -> list[list[Any]]:
        """Return keys as the arrays that statements take, one a column; those of several columns in their order.

        Prefixes have nulls for the columns they leave out; no key or prefix may be below another one.
        """
        if not self.several:
            return [list(keys)]
        ordered = sorted([*keys, *prefixes])
        width = len(self.columns)
        if prefixes:
            ordered = [(*key, *[None] * (width - len(key))) for key in ordered]
        return [[key[at] for key in ordered] for at in range(width)]

    def shown(self, key: Any) -> str:
        """Write a key as people read it: one value as its text, several as a JSON array."""
        return msgspec.json.encode(key).decode() if self.several else str(key)

    def shown_below(self, prefix: Prefix) -> str:
        """Write a prefix as people read it: `["o-1", …]`."""
        return f"[{', '.join(msgspec.json.encode(value).decode() for value in prefix.values)}, …]"

    def parsed(self, text: str) -> Any:
        """Return the key that `shown` writes as this text, or a person. Raises BadValue."""
        if not self.several:
            return self._parsed(self.first, text)
        try:
            values = msgspec.json.decode(text, type=list[Any])
        except msgspec.MsgspecError as error:
            example = self.shown(["…"] * len(self.columns))
            raise BadValue(f"is no key: write a JSON array like {example}", ", ".join(self.names)) from error
        if len(values) != len(self.columns):
            raise BadValue(f"takes {len(self.columns)} values", ", ".join(self.names))
        return tuple(self._parsed(column, part) for column, part in zip(self.columns, values, strict=True))

    def _parsed(self, column: Column, value: Any) -> Any:
        try:
            return column.stored(msgspec.convert(value, column.kind, strict=False))
        except (msgspec.ValidationError, ValueError) as error:
            raise BadValue(f"takes a {column.kind.__name__}", column.name) from error
