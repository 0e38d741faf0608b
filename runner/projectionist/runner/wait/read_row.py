"""Reads one row of a read model by its key, as its handlers see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import asyncpg

from projectionist.core.errors import ProjectionistError
from projectionist.projections.compiled.definition import definition
from projectionist.projections.consumer_classes import Projection
from projectionist.projections.folding.rows import thawed
from projectionist.projections.tables.row_statements import read_by_key

if TYPE_CHECKING:
    from asyncpg import Record

P = TypeVar("P", bound=Projection)


class CannotRead(ProjectionistError):
    """The row cannot be read: the class has no rows of its own, or its view is not as this code says."""


class RowSource(Protocol):
    """A connection or pool of asyncpg, and what behaves like one."""

    def fetchrow(self, query: str, /, *args: Any) -> Awaitable[Record | None]:
        """Return the first row of a statement."""


async def read_row(cls: type[P], key: object, fetch: Callable[..., Awaitable[Record | None]]) -> P | None:
    """Return the row of this key by the public view; None where there is none. `fetch` runs the statement.

    Raises BadValue for a key of another type, and CannotRead.
    """
    found = definition(cls)
    table = found.table
    if table is None or table.key is None:
        raise CannotRead(
            f"{found.name} has no rows of a class: it is a {found.kind}",
            remedy="Read the views of a SqlProjection by SQL; a Reactor has none",
        )
    try:
        stored = await fetch(read_by_key(table), table.key.stored(key))
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.UndefinedObjectError) as error:
        raise CannotRead(
            f"{table.public} is not there as {found.name} declares it: {error}",
            remedy="Run `projectionist migrate`; where it says so, `projectionist rebuild`",
        ) from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise CannotRead(
            f"{table.public} may not be read by this role: {error}",
            remedy=f"Grant it: grant select on {table.public} to …",
        ) from error
    return None if stored is None else thawed(cls, table, tuple(stored))
