"""Reads one row of a read model by its key, as its handlers see it, on a connection of any library that is awaited."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from projectionist.core.errors import ProjectionistError
from projectionist.projections.compiled.definition import (
    Definition,
    ViewDeclaration,
    compiled_of,
    consumer_definition,
)
from projectionist.projections.consumer_classes import Projection
from projectionist.projections.folding.rows import thawed
from projectionist.projections.tables import column_values
from projectionist.projections.tables.row_statements import read_by_key

P = TypeVar("P", bound=Projection)
Fetch = Callable[..., Awaitable[Iterable[Any] | None]]
"""Executes a statement with its parameters, `$1`, `$2` … in this order; returns the values of its first row."""

_NOT_THERE = frozenset({"42P01", "42703", "42704", "3F000"})
_NO_RIGHT = "42501"
_PARAMETER = re.compile(r"\$(\d)")


class CannotRead(ProjectionistError):
    """The row cannot be read: the class has no rows of its own, or its view is not as this code says."""


async def read_row(cls: type[P], key: object, fetch: Fetch) -> P | None:
    """Return the row of this key by the public view; None where there is none.

    Raises BadValue for a key of another type, and CannotRead.
    """
    found = compiled_of(cls) or consumer_definition(cls)
    table = found.table if isinstance(found, Definition | ViewDeclaration) else None
    if table is None or table.key is None:
        raise CannotRead(
            f"{found.name} has no rows of a class: it is a {found.kind}",
            remedy="Read the views of a SqlProjection by SQL; a Reactor has none",
        )
    try:
        row = await fetch(read_by_key(table), *table.key.parts(table.key.stored(key)))
    except Exception as error:
        state = getattr(getattr(error, "orig", error), "sqlstate", None)
        if state in _NOT_THERE:
            raise CannotRead(
                f"{table.public} is not there as {found.name} declares it: {error}",
                remedy="Run `projectionist migrate`; where it says so, `projectionist rebuild`",
            ) from error
        if state == _NO_RIGHT:
            raise CannotRead(
                f"{table.public} may not be read by this role: {error}",
                remedy=f"Grant it: grant select on {table.public} to …",
            ) from error
        raise
    return None if row is None else thawed(cls, table, tuple(map(_in_utc, row)))


def fetch_of(connection: Any) -> Fetch:
    """Return what executes a statement on a connection of the caller's; raises CannotRead for what is none."""
    if hasattr(connection, "fetchrow"):
        fetchrow: Fetch = connection.fetchrow
        return fetchrow
    if hasattr(connection, "run_sync") and hasattr(connection, "execute"):
        return partial(_fetch_by_sqlalchemy, connection)
    if hasattr(connection, "pgconn") and inspect.iscoroutinefunction(connection.execute):
        return partial(_fetch_by_psycopg, connection)
    raise CannotRead(
        f"read() takes a connection whose statements are awaited, and got a {type(connection).__name__}",
        remedy="Give a connection or pool of asyncpg, an AsyncConnection or AsyncSession of SQLAlchemy, or an "
        "AsyncConnection of psycopg; for others, `projectionist models` writes what they read by",
    )


async def _fetch_by_sqlalchemy(connection: Any, statement: str, *key: Any) -> Iterable[Any] | None:
    from sqlalchemy import text  # noqa: PLC0415  whoever gives such a connection has it

    given = {f"key{at}": value for at, value in enumerate(key, 1)}
    answer = await connection.execute(text(_PARAMETER.sub(r":key\1", statement)), given)
    row: Iterable[Any] | None = answer.first()
    return row


async def _fetch_by_psycopg(connection: Any, statement: str, *key: Any) -> Iterable[Any] | None:
    from psycopg import AsyncCursor  # noqa: PLC0415  whoever gives such a connection has it
    from psycopg.rows import tuple_row  # noqa: PLC0415

    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(_PARAMETER.sub("%s", statement.replace("%", "%%")), list(key))
        row: Iterable[Any] | None = await cursor.fetchone()
        return row


def _in_utc(value: Any) -> Any:
    """Return a moment as handlers see it: some drivers give it in the time zone of the session."""
    return column_values.moment(value) if isinstance(value, datetime) else value
