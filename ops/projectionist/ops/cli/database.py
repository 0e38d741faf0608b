"""The database of the settings, for commands that need nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from projectionist.core.postgres import connections
from projectionist.migrations import MigrationError, plan
from projectionist.ops.cli.find_servers import settings

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Settings


@dataclass(frozen=True)
class Database:
    """A connection in no transaction, and the settings it was made by."""

    settings: Settings
    connection: Connection

    @property
    def schema(self) -> str:
        """Return the schema of our own tables."""
        return self.settings.postgres.schema


@asynccontextmanager
async def database(command: str, found: Settings | None = None) -> AsyncIterator[Database]:
    """Connect, by these settings or those that are found; raises MigrationError for another release's database."""
    found = settings() if found is None else found
    connection = await connections.connect(found.postgres, application_name=f"projectionist {command}")
    try:
        if await plan(connection, found.postgres.schema):
            raise MigrationError(
                "the database lacks tables of this release", remedy="Run `projectionist migrate`"
            )
        yield Database(found, connection)
    finally:
        await connection.close()
