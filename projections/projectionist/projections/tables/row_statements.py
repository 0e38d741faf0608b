"""The statements that read and write one generation of a Projection's table, generated in this one place.

Set-based, and of shapes whose plans stay good while the table grows: `= any($1)` for a key of one column; for one of
several a look into the primary key for each, since PostgreSQL reads whole prefixes, or all, for other shapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from projectionist.core.identifiers import quoted
from projectionist.projections.tables.array_text import array_text
from projectionist.projections.tables.columns import Column
from projectionist.projections.tables.ddl import physical, public
from projectionist.projections.tables.table import Table
from projectionist.projections.tables.table_key import MOST_AT_ONCE, MOST_ROWS, TableKey

Row = tuple[Any, ...]


class ReadModel:
    """The statements of one generation. Rows are tuples in the order of the columns, in database form."""

    __slots__ = (
        *(
            "_in_one",
            "below",
            "below_locked",
            "columns",
            "delete",
            "delete_own",
            "insert_absent",
            "key",
            "load",
        ),
        *("load_locked", "upsert"),
    )

    def __init__(self, table: Table, schema: str, generation: int) -> None:
        if table.key is None:
            raise ValueError(f"{table!r} has no columns of its own")
        target, key = physical(table, schema, generation), _listed(table.key.columns)
        values = _values(table.columns)
        into = f"insert into {target} ({_listed(table.columns)}) {values}"
        self.key = table.key
        """Makes the arguments of `load`, `load_locked` and `delete`: `arrays(keys)`."""
        self.columns = tuple(column.name for column in table.columns)
        """For COPY."""
        self.load, self.load_locked, self.delete = (_several if table.key.several else _one)(table, target)
        """Rows by key; the same, locked in the order of the keys, for rows that several aggregates share."""
        self.below, self.below_locked = _below(table, target) if table.key.several else ("", "")
        """Rows by key and below prefixes, in one pass: `arrays(keys, prefixes)`; one more than an event may have."""
        self.delete_own = f"delete from {target} where {_first(table.key)}"
        """All rows of which the first column of the key is one of these values: an aggregate's own."""
        self._in_one = [_is_in_one(column) for column in table.columns]
        self.upsert = f"{into} on conflict ({key}) {_update(table)}"
        """Rows that were there: `arguments(rows)`."""
        self.insert_absent = (
            f"{into} order by {_ordering(table.key)} on conflict ({key}) do nothing returning {key}"
        )
        """Rows read as absent, in the order of the keys: `arguments(rows)`; a short answer means that a peer was
        first."""

    def arguments(self, rows: Iterable[Row]) -> list[Any]:
        """Return rows as `upsert` and `insert_absent` take them: an array a column."""
        columns = zip(*rows, strict=True)
        return [
            array_text(values) if in_one else values
            for values, in_one in zip(columns, self._in_one, strict=True)
        ]


def read_by_key(table: Table) -> str:
    """Write the statement that reads one row by the name users see, whose grants count: `$1` … are the key."""
    if table.key is None:
        raise ValueError(f"{table!r} has no columns of its own")
    chosen = (
        f"{quoted(column.name)} = cast(${at} as {_plain(column)})"
        for at, column in enumerate(table.key.columns, 1)
    )
    return f"select {_read(table.columns)} from {public(table)} where {' and '.join(chosen)}"


def read_by_keys(table: Table) -> str:
    """Write the statement that reads rows by the name users see: an array a column of the key."""
    if table.key is None:
        raise ValueError(f"{table!r} has no columns of its own")
    return (_several if table.key.several else _one)(table, public(table))[0]


def _one(table: Table, target: str) -> tuple[str, str, str]:
    """Return what loads, loads locked and deletes by a key of one column."""
    assert table.key is not None, "it has columns"
    key, chosen = quoted(table.key.first.name), _first(table.key)
    load = f"select {_read(table.columns)} from {target} where {chosen}"
    return load, f"{load} order by {key} for update", f"delete from {target} where {chosen}"


def _first(key: TableKey) -> str:
    """Return the condition that the first column of the key is among `$1`."""
    return f"{quoted(key.first.name)} = any($1::{_array(key.first)})"


def _several(table: Table, target: str) -> tuple[str, str, str]:
    """Return the same for a key of several columns: a lateral look for each, which leaves one plan.

    `offset 0` keeps the planner from turning it into a join, whose plan would be that of an empty table. Rows are
    locked in the order of the arrays.
    """
    assert table.key is not None, "it has columns"
    columns = list(enumerate(table.key.columns, 1))
    arrays = ", ".join(f"${at}::{_array(column)}" for at, column in columns)
    names = ", ".join(f"k{at}" for at, _ in columns)
    keys = f"unnest({arrays}) as k ({names}) cross join lateral"
    chosen = " and ".join(f"t.{quoted(column.name)} = k.k{at}" for at, column in columns)
    found = f"select {_read(table.columns)} from {target} t where {chosen} offset 0"
    place = f"select t.ctid from {target} t where {chosen} offset 0 for update"
    places = f"select r.ctid as place from {keys} ({place}) as r"
    return (
        f"select r.* from {keys} ({found}) as r",
        f"select r.* from {keys} ({found} for update) as r",
        f"delete from {target} t using ({places}) as d where t.ctid = d.place",
    )


def _below(table: Table, target: str) -> tuple[str, str]:
    """Return what loads, and loads locked, rows by key and rows below prefixes: a branch for each length of a prefix.

    Locks are taken in the order of the arrays, and below a prefix in that of the key, so ascending over all.
    """
    assert table.key is not None, "it has columns"
    columns = table.key.columns
    arrays = ", ".join(f"${at}::{_array(column)}" for at, column in enumerate(columns, 1))
    names = ", ".join(f"k{at}" for at, _ in enumerate(columns, 1))
    keys = f"unnest({arrays}) as k ({names}) cross join lateral"

    def branch(many: int, lock: str) -> str:
        chosen = [f"t.{quoted(column.name)} = k.k{at}" for at, column in enumerate(columns[:many], 1)]
        found = f"select {_read(table.columns)} from {target} t where"
        if many == len(columns):
            return f"(select * from ({found} {' and '.join(chosen)} and k.k{many} is not null offset 0{lock}) whole)"
        meant = [f"k.k{many} is not null", f"k.k{many + 1} is null"]
        ordered = ", ".join(f"t.{quoted(column.name)}" for column in columns)
        limited = f"order by {ordered} limit {MOST_ROWS + 1}{lock}"
        return f"(select * from ({found} {' and '.join([*chosen, *meant])} {limited}) below{many})"

    def statement(lock: str) -> str:
        branches = " union all ".join(branch(many, lock) for many in range(len(columns), 0, -1))
        return f"select r.* from {keys} ({branches}) as r limit {MOST_AT_ONCE + 1}"

    return statement(""), statement(" for update")


def _plain(column: Column) -> str:
    return "text" if column.sql_type.startswith("text") else column.sql_type


def _array(column: Column) -> str:
    return "text[]" if column.is_text else f"{_plain(column)}[]"


def _is_in_one(column: Column) -> bool:
    """Return whether the values of a column travel as one text; not documents, in which every quote has its backslash
    then. Texts full of quotes pay for it: four times what the driver takes for them."""
    return _plain(column) in ("text", "bigint", "boolean", "numeric")


def _values(columns: tuple[Column, ...]) -> str:
    arrays = ", ".join(
        f"${at}::{'text::' if _is_in_one(column) else ''}{_array(column)}"
        for at, column in enumerate(columns, 1)
    )
    chosen = ", ".join(f"u.{quoted(c.name)}{_cast(c)}" for c in columns)
    return f"select {chosen} from unnest({arrays}) as u ({_listed(columns)})"


def _cast(column: Column) -> str:
    return f"::{column.sql_type}" if column.is_text else ""


def _ordering(key: TableKey) -> str:
    return ", ".join(
        f'u.{quoted(c.name)} collate "C"' if _plain(c) == "text" else f"u.{quoted(c.name)}"
        for c in key.columns
    )


def _listed(columns: Iterable[Column]) -> str:
    return ", ".join(quoted(column.name) for column in columns)


def _read(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{quoted(c.name)}::text" if c.is_text else quoted(c.name) for c in columns)


def _update(table: Table) -> str:
    pairs = [f"{quoted(c.name)} = excluded.{quoted(c.name)}" for c in table.columns if not c.is_key]
    return f"do update set {', '.join(pairs)}" if pairs else "do nothing"
