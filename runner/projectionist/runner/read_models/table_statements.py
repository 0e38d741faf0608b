"""The statements that make and change the tables of a generation, and what its row remembers of them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from projectionist.core.identifiers import quoted
from projectionist.projections.tables import ddl
from projectionist.projections.tables.ddl import ColumnSpec, NeedsRebuild

if TYPE_CHECKING:
    from projectionist.projections.compiled.definition import Definition


class KeptTable(msgspec.Struct, frozen=True):
    """The part of a generation's row about one of its tables."""

    columns: tuple[ColumnSpec, ...] = ()
    body: str = ""
    """Of a SqlProjection's table: what its `create table` said."""
    indexes: dict[str, str] = {}
    """The comment of each index, by the name the class gives it."""


def created(d: Definition, schema: str, generation: int) -> list[str]:
    """Return the statements that make a generation, and the views over it."""
    marks = [ddl.mark(table, schema, generation) for table in d.owned]
    if d.table is not None:
        return [
            ddl.create_table(d.table, schema, generation),
            *marks,
            *ddl.create_indexes(d.table, schema, generation),
            _first(ddl.create_view(d.table, schema, generation)),
        ]
    tables = [ddl.create_sql_table(d.tables, name, schema, generation) for name in d.tables]
    indexes = [text for table in d.owned for text in ddl.create_indexes(table, schema, generation)]
    views = [_first(ddl.create_sql_view(name, schema, generation)) for name in d.tables]
    return [*tables, *marks, *indexes, *views]


def _first(view: str) -> str:
    """Return the statement that makes a view where there must be none: one of the user's own is not ours to replace."""
    return view.replace("create or replace view", "create view", 1)


def evolved(
    d: Definition, schema: str, generation: int, kept: dict[str, KeptTable]
) -> list[str] | NeedsRebuild:
    """Return the statements that bring a generation to what its class says now."""
    if d.table is not None:
        old = kept.get(d.table.public)
        if old is None:
            return NeedsRebuild((f"the table is now called {d.table.public}",))
        changed = ddl.evolve(d.table, schema, generation, old.columns)
        if isinstance(changed, NeedsRebuild):
            return changed
        view = ddl.create_view(d.table, schema, generation, [spec.name for spec in old.columns])
        return [*changed, *_undeclared(d, schema, generation, kept), view]
    if {name: k.body for name, k in kept.items()} != {name: k.body for name, k in keeping(d).items()}:
        return NeedsRebuild(("the declared tables have changed",))
    return _undeclared(d, schema, generation, kept)


def _undeclared(d: Definition, schema: str, generation: int, kept: dict[str, KeptTable]) -> list[str]:
    """Return the statements that drop the indexes which the class declares no more, or otherwise."""
    now = keeping(d)
    return [
        f"drop index if exists {quoted(schema)}.{quoted(f'{table.physical(generation)}_{name}')}"
        for table in d.owned
        for name, mark in kept[table.public].indexes.items()
        if now[table.public].indexes.get(name) != mark
    ]


def keeping(d: Definition) -> dict[str, KeptTable]:
    """Return what the row of a generation remembers of its tables, by their public names."""
    marks = {table.public: {i.name: ddl.index_mark(i) for i in table.indexes} for table in d.owned}
    if d.table is not None:
        public = d.table.public
        return {public: KeptTable(ddl.specs(d.table), indexes=marks[public])}
    bodies = zip(marks.items(), d.tables.values(), strict=True)
    return {public: KeptTable(body=body, indexes=named) for (public, named), body in bodies}


def publics(d: Definition) -> list[str]:
    """Return the names under which users see the tables."""
    return [table.public for table in d.owned]
