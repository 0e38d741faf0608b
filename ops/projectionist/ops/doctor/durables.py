"""The durables that the database has named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres import connections
from projectionist.core.postgres.statements import Statements

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Postgres


async def registered_durables(postgres: Postgres) -> dict[str, str]:
    """Return each registered consumer's durable; none where the database cannot say."""
    try:
        connection = await connections.connect(postgres, application_name="projectionist doctor")
    except ProjectionistError:
        return {}
    try:
        rows = await connection.fetch(Statements("projectionist.ops", postgres.schema)["select_durables"])
    except asyncpg.PostgresError:  # not migrated yet, or not for this role to see
        return {}
    finally:
        await connection.close()
    return {row["name"]: row["durable"] for row in rows if row["durable"]}
