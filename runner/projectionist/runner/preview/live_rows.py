"""The live rows of a consumer whose class may have other columns by now: read by what the live generation remembers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.identifiers import quoted
from projectionist.projections.tables import ddl
from projectionist.projections.tables.row_statements import ReadModel
from projectionist.projections.tables.table import Table
from projectionist.projections.tables.table_key import MOST_ROWS, Prefix
from projectionist.runner.read_models.views import kept
from projectionist.runner.verify.refold_rows import table_of
from projectionist.runner.verify.row_difference import UNTOLD, Row

if TYPE_CHECKING:
    from projectionist.projections.tables.ddl import ColumnSpec
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.database.queries import Queries
    from projectionist.runner.read_models.table_statements import KeptTable


class ColumnChanges(msgspec.Struct, frozen=True):
    """The columns that a class and the live generation do not have in common: these are not compared."""

    new: list[str]
    gone: list[str]
    retyped: list[str]
    other_key: bool
    """Whether rows are found by another key, so that none can be compared."""

    def __bool__(self) -> bool:
        return bool(self.new or self.gone or self.retyped or self.other_key)


class LiveRows:
    """Reads live rows in the places of the class's columns, with UNTOLD where live has no such column."""

    def __init__(self, queries: Queries, consumer: Consumer, remembered: dict[str, KeptTable]) -> None:
        table, self._key = table_of(consumer)
        ((public, old),) = remembered.items()
        before, now = {one.name: one for one in old.columns}, ddl.specs(table)
        same = {one.name for one in now if one.name in before and before[one.name].sql_type == one.sql_type}
        keys = _key_names(old.columns)
        self.changes = ColumnChanges(
            new=[one.name for one in now if one.name not in before],
            gone=sorted(before.keys() - {one.name for one in now}),
            retyped=[one.name for one in now if one.name in before and one.name not in same],
            other_key=keys != _key_names(now) or not same.issuperset(keys),
        )
        self._queries = queries
        self._places = [at for at, column in enumerate(table.columns) if column.name in same]
        self._width = len(table.columns)
        self._read, self._chosen, self._below = "", "", ""
        if not self.changes.other_key:
            common = Table(public, [table.columns[at] for at in self._places], self._key.names)
            self._read = ReadModel(common, queries.schema, consumer.view.generation).load
            name = ddl.physical(common, queries.schema, consumer.view.generation)
            chosen = f"select {', '.join(map(quoted, keys))} from {name}"
            self._chosen = f"{chosen} order by random() limit $1"
            self._below = chosen

    @classmethod
    async def of(cls, queries: Queries, consumer: Consumer) -> LiveRows:
        """Return the rows of the live generation."""
        return cls(queries, consumer, await kept(queries, consumer.view.number, consumer.view.generation))

    async def load(self, keys: Sequence[Any]) -> dict[Any, Row]:
        """Return the rows of these keys; none where they are found by another key."""
        if not self._read:
            return {}
        found = {}
        for stored in await self._queries.connection.fetch(self._read, *self._key.arrays(keys)):
            row = [UNTOLD] * self._width
            for at, value in zip(self._places, stored, strict=True):
                row[at] = value
            found[self._key.of(row)] = tuple(row)
        return found

    async def below(self, prefix: Prefix) -> list[Any]:
        """Return the keys of rows below a prefix, as many as an event may have."""
        if not self._below:
            return []
        names = zip(self._key.names, prefix.values, strict=False)
        chosen = " and ".join(f"{quoted(name)} = ${at}" for at, (name, _) in enumerate(names, 1))
        text = f"{self._below} where {chosen} limit {MOST_ROWS}"
        return [self._key.selected(row) for row in await self._queries.connection.fetch(text, *prefix.values)]

    async def some(self, most: int) -> list[Any]:
        """Return the keys of so many rows, chosen by chance."""
        if not self._chosen:
            return []
        rows = await self._queries.connection.fetch(self._chosen, most)
        return [self._key.selected(row) for row in rows]


def _key_names(columns: Sequence[ColumnSpec]) -> list[str]:
    """Return the columns of a key, in its order."""
    return [one.name for one in sorted(columns, key=lambda one: one.rank) if one.is_key]
