"""DDL of read models, as text: generations in our schema, and the view that bears the user's name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import msgspec

from projectionist.core.identifiers import quoted
from projectionist.projections.tables.columns import Column
from projectionist.projections.tables.json_columns import narrowed, outlined
from projectionist.projections.tables.sql_tables import resolved
from projectionist.projections.tables.table import Index, Table

READ_ONLY = "(select) as read_only"


class ColumnSpec(msgspec.Struct, frozen=True):
    """A column as it is in a database, or as a class declares it; `evolve` compares them."""

    name: str
    sql_type: str
    nullable: bool
    is_key: bool
    default: str
    """As an SQL literal; empty for a key."""
    document: Any = None
    """The outline of a jsonb column's documents."""
    rank: int = 0
    """Its place in a key of several columns, from 1."""


class NeedsRebuild(msgspec.Struct, frozen=True):
    """A change that existing rows cannot follow: another generation has to be built from the stream."""

    reasons: tuple[str, ...]


def specs(table: Table) -> tuple[ColumnSpec, ...]:
    """Return the columns of `table`, to be compared and kept."""
    return tuple(
        ColumnSpec(
            name=c.name,
            sql_type=c.sql_type,
            nullable=c.nullable,
            is_key=c.is_key,
            default="" if c.is_key else literal(c),
            document=outlined(c.kind) if c.is_json else None,
            rank=_rank(table, c),
        )
        for c in table.columns
    )


def create_table(table: Table, schema: str, generation: int, *, keyed: bool = True) -> str:
    """Return `create table` of one generation, in our schema; without `keyed`, `create_key` follows once it is
    filled."""
    lines = [_column(spec) for spec in specs(table)]
    if table.key is not None and keyed:
        lines.append(_key(table, generation))
    body = ",\n    ".join(lines)
    return f"create table {physical(table, schema, generation)} (\n    {body}\n)"


def create_key(table: Table, schema: str, generation: int) -> str:
    """Write the primary key of a generation that was created without it."""
    return f"alter table {physical(table, schema, generation)} add {_key(table, generation)}"


def create_indexes(table: Table, schema: str, generation: int) -> list[str]:
    """Write the statements that create each declared index, in the transaction that makes or fills the table."""
    return [text for index in table.indexes for text in create_index(table, index, schema, generation)]


def create_index(table: Table, index: Index, schema: str, generation: int, word: str = "") -> list[str]:
    """Write the statements that create an index and note how it was declared; `word` comes after `index`."""
    name, target = quoted(table.index_name(index, generation)), physical(table, schema, generation)
    kind = "unique index" if index.unique else "index"
    return [
        f"create {kind} {word}{name} on {target} {index.declared}",
        f"comment on index {quoted(schema)}.{name} is {_string(index_mark(index))}",
    ]


def index_mark(index: Index) -> str:
    """Return the comment that an index bears once it is made: what was declared, which PostgreSQL rewrites."""
    return f"projectionist: {'unique ' if index.unique else ''}{index.declared}"


def create_view(table: Table, schema: str, generation: int, live: Sequence[str] = ()) -> str:
    """Return `create or replace view` of the user's name over one generation.

    `live` are the columns the view has now: their order is kept, because PostgreSQL refuses any other, and
    new ones follow. Where a column is gone the view cannot be replaced.
    """
    names = [column.name for column in table.columns]
    order = [*(name for name in live if name in names), *(name for name in names if name not in live)]
    return f"create or replace view {public(table)} as\n{shown(order, physical(table, schema, generation))}"


def shown(columns: Iterable[str], physical: str) -> str:
    """Write the query of a view over `columns` of a generation's table.

    Beside the table it names a row without columns: PostgreSQL plans it away, and updates no view over two things.
    """
    return f"select {_listed(columns)} from {physical}, {READ_ONLY}"


def evolve(table: Table, schema: str, generation: int, old: Sequence[ColumnSpec]) -> list[str] | NeedsRebuild:
    """Write the statements that bring one generation from the columns `old` to those of `table`.

    Fields added with their defaults become columns, inside documents too; everything else needs a rebuild.
    """
    wanted = {spec.name: spec for spec in specs(table)}
    known = {spec.name for spec in old}
    reasons = tuple(filter(None, (_difference(spec, wanted.get(spec.name)) for spec in old)))
    if reasons:
        return NeedsRebuild(reasons)
    target = physical(table, schema, generation)
    added = [spec for spec in wanted.values() if spec.name not in known]
    return [f"alter table {target} add column {_column(spec)}" for spec in added]


def create_sql_table(tables: Mapping[str, str], name: str, schema: str, generation: int) -> str:
    """Return `create table` of one of a SqlProjection's tables; its body may name the others."""
    table = Table(name)
    body = resolved(tables[name], sql_names(tables, schema, generation))
    return f"create table {physical(table, schema, generation)} (\n    {body}\n)"


def create_sql_view(name: str, schema: str, generation: int) -> str:
    """Write the view that bears the declared name of one of a SqlProjection's tables."""
    table = Table(name)
    target = physical(table, schema, generation)
    return f"create or replace view {public(table)} as\nselect * from {target}, {READ_ONLY}"


def sql_names(tables: Iterable[str], schema: str, generation: int) -> dict[str, str]:
    """Return the tables of one generation by the placeholders of a SqlProjection."""
    return {table.name: physical(table, schema, generation) for table in map(Table, tables)}


def mark(table: Table, schema: str, generation: int) -> str:
    """Write the statement that marks a generation's table as ours: no table without the mark is ever dropped."""
    return f"comment on table {physical(table, schema, generation)} is {_string(marked(table, generation))}"


def marked(table: Table, generation: int) -> str:
    """Return the comment that a generation's table bears; it outlives a dump, which numbers of objects do not."""
    return f"projectionist: generation {generation} of {table.public}"


def physical(table: Table, schema: str, generation: int) -> str:
    """Return the quoted name of one generation's table, with our schema."""
    return f"{quoted(schema)}.{quoted(table.physical(generation))}"


def public(table: Table) -> str:
    """Return the quoted name of the view, with the user's schema."""
    return f"{quoted(table.schema)}.{quoted(table.name)}"


def literal(column: Column) -> str:
    """Write the column's default as an SQL literal."""
    return "null" if column.default is None else f"{_text(column.default)}::{column.sql_type}"


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        shown = f"\\x{value.hex()}"
    elif isinstance(value, datetime | date):
        shown = value.isoformat()
    elif isinstance(value, bool):
        shown = "true" if value else "false"
    else:
        shown = str(value)
    return _string(shown)


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _key(table: Table, generation: int) -> str:
    if table.key is None:
        raise ValueError(f"{table!r} has no columns of its own")
    return f"constraint {quoted(table.key_name(generation))} primary key ({_listed(table.key.names)})"


def _rank(table: Table, column: Column) -> int:
    key = table.key
    return key.names.index(column.name) + 1 if key is not None and key.several and column.is_key else 0


def _column(spec: ColumnSpec) -> str:
    text = f"{quoted(spec.name, what='column')} {spec.sql_type}"
    if spec.is_key:
        return f"{text} not null"
    return f"{text} default {spec.default}" if spec.nullable else f"{text} not null default {spec.default}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(quoted(name, what="column") for name in names)


def _difference(old: ColumnSpec, new: ColumnSpec | None) -> str | None:
    if new is None:
        return f"column {old.name!r} is gone"
    if new.sql_type != old.sql_type:
        return f"column {old.name!r} was {old.sql_type} and is {new.sql_type}"
    if (new.is_key, new.rank) != (old.is_key, old.rank):
        return _key_difference(old, new)
    if new.nullable != old.nullable:
        return f"column {old.name!r} {'may' if new.nullable else 'may no longer'} be null"
    if new.default != old.default:
        return f"column {old.name!r} has another default"
    return narrowed(old.document, new.document, f"in the documents of column {old.name!r}: {old.name}")


def _key_difference(old: ColumnSpec, new: ColumnSpec) -> str:
    if not (old.is_key and new.is_key):
        return f"the key is another one: {old.name!r} {'is' if new.is_key else 'was'} it"
    return f"the key has other columns: {old.name!r} was number {old.rank or 1} and is {new.rank or 1}"
