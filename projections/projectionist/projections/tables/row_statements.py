"""The statements that read and write one generation of a Projection's table, generated in this one place.

Set-based, `= any($1)` and `insert … on conflict` only: their plans stay good while the table grows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from projectionist.core.identifiers import quoted
from projectionist.projections.tables.columns import Column
from projectionist.projections.tables.ddl import physical, public
from projectionist.projections.tables.table import Table

Row = tuple[Any, ...]


class ReadModel:
    """The statements of one generation. Rows are tuples in the order of the columns, in database form."""

    __slots__ = ("columns", "delete", "insert_absent", "load", "load_locked", "upsert")

    def __init__(self, table: Table, schema: str, generation: int) -> None:
        if table.key is None:
            raise ValueError(f"{table!r} has no columns of its own")
        target, key = physical(table, schema, generation), quoted(table.key.name)
        names = ", ".join(quoted(column.name) for column in table.columns)
        chosen = f"{key} = any($1::{_array(table.key)})"
        values = _values(table.columns)
        self.columns = tuple(column.name for column in table.columns)
        """For COPY."""
        self.load = f"select {_read(table.columns)} from {target} where {chosen}"
        """Rows by key: $1 an array of keys."""
        self.load_locked = f"{self.load} order by {key} for update"
        """The same, locked in the order of the keys: for rows that several aggregates share."""
        self.upsert = f"insert into {target} ({names}) {values} on conflict ({key}) {_update(table)}"
        """Rows that were there: an array a column."""
        self.insert_absent = (
            f"insert into {target} ({names}) {values} order by {_ordering(table.key)} "
            f"on conflict ({key}) do nothing returning {key}"
        )
        """Rows read as absent, in the order of the keys; a short answer means that a peer was first."""
        self.delete = f"delete from {target} where {chosen}"


def read_by_key(table: Table) -> str:
    """Write the statement that reads one row by the name users see, whose grants count: $1 is the key."""
    if table.key is None:
        raise ValueError(f"{table!r} has no columns of its own")
    return (
        f"select {_read(table.columns)} from {public(table)} "
        f"where {quoted(table.key.name)} = cast($1 as {_plain(table.key)})"
    )


def arguments(rows: Iterable[Row]) -> list[Row]:
    """Return rows as the arrays that `upsert` and `insert_absent` take, one a column."""
    return list(zip(*rows, strict=True))


def _plain(column: Column) -> str:
    return "text" if column.sql_type.startswith("text") else column.sql_type


def _array(column: Column) -> str:
    return "text[]" if column.is_text else f"{_plain(column)}[]"


def _values(columns: tuple[Column, ...]) -> str:
    arrays = ", ".join(f"${at}::{_array(column)}" for at, column in enumerate(columns, 1))
    names = ", ".join(quoted(column.name) for column in columns)
    chosen = ", ".join(f"u.{quoted(c.name)}{_cast(c)}" for c in columns)
    return f"select {chosen} from unnest({arrays}) as u ({names})"


def _cast(column: Column) -> str:
    return f"::{column.sql_type}" if column.is_text else ""


def _ordering(key: Column) -> str:
    return f'u.{quoted(key.name)} collate "C"' if _plain(key) == "text" else f"u.{quoted(key.name)}"


def _read(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{quoted(c.name)}::text" if c.is_text else quoted(c.name) for c in columns)


def _update(table: Table) -> str:
    pairs = [f"{quoted(c.name)} = excluded.{quoted(c.name)}" for c in table.columns if not c.is_key]
    return f"do update set {', '.join(pairs)}" if pairs else "do nothing"
