"""A user's own SQL finds names where the user's sessions do; everything else of ours looks nowhere but in pg_catalog.

PostgreSQL prefers a function for the exact type of an argument to one for any type, wherever it lies in the path. Any
role that may create in a schema of the path could so have its own function called by whoever runs our statements.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from projectionist.core.postgres.connections import SEARCH_PATH
from projectionist.core.postgres.statements import Statements

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection

_SQL = Statements("projectionist.core", "projectionist")


async def default_search_path(connection: Connection) -> str:
    """Return where the role's sessions in this database look for names, by its settings and the database's."""
    return str(await connection.fetchval(_SQL["select_default_search_path"]))


@asynccontextmanager
async def default_names(connection: Connection, path: str | None = None) -> AsyncIterator[None]:
    """Look for names as the role's own sessions do, inside the caller's transaction; an error leaves that undone.

    `path`: what `default_search_path` has said before.
    """
    usual = await default_search_path(connection) if path is None else path
    await connection.fetchval(_SQL["set_search_path"], usual, True)
    yield
    await connection.fetchval(_SQL["set_search_path"], SEARCH_PATH, True)


@asynccontextmanager
async def own_names(connection: Connection, path: str) -> AsyncIterator[None]:
    """Look for names as our statements do, in the middle of `default_names` with this path."""
    await connection.fetchval(_SQL["set_search_path"], SEARCH_PATH, True)
    yield
    await connection.fetchval(_SQL["set_search_path"], path, True)


@asynccontextmanager
async def default_names_of_session(connection: Connection) -> AsyncIterator[None]:
    """Do the same for statements that run in no transaction."""
    await connection.fetchval(_SQL["set_search_path"], await default_search_path(connection), False)
    try:
        yield
    finally:
        if not connection.is_closed():
            await connection.fetchval(_SQL["set_search_path"], SEARCH_PATH, False)
