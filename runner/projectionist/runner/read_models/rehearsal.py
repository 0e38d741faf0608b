"""Tries whether a SqlProjection's tables can stand beside themselves: a rebuild makes the next generation so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.search_path import default_names
from projectionist.projections.tables import ddl
from projectionist.projections.tables.table import MOST_GENERATIONS

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.projections.compiled.definition import Definition


class OnlyOnce(ProjectionistError):
    """A table's body names something that can be there once in a schema: there would be no second generation."""


class _Enough(Exception):
    """Everything could be made, and is undone."""


async def rehearse(connection: Connection, definition: Definition, schema: str) -> None:
    """Make tables and indexes of two more generations in the caller's transaction, and undo it. Raises OnlyOnce."""
    if not definition.tables:
        return
    try:
        async with connection.transaction(), default_names(connection):
            for generation in (MOST_GENERATIONS - 1, MOST_GENERATIONS):
                for name in definition.tables:
                    await connection.execute(
                        ddl.create_sql_table(definition.tables, name, schema, generation)
                    )
                for table in definition.owned:
                    for statement in ddl.create_indexes(table, schema, generation):
                        await connection.execute(statement)
            raise _Enough
    except _Enough:
        return
    except asyncpg.DuplicateTableError as error:
        raise OnlyOnce(
            f"the tables of {definition.name!r} cannot stand beside themselves, as in a rebuild: {error}",
            remedy="An index has its name for the whole schema: leave the name of its constraint out, and write "
            "`unique (a, b)` for `constraint x unique (a, b)`; PostgreSQL names it after the table",
        ) from error
