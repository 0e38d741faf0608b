"""Makes the tables of a scene, as `projectionist migrate` would, and registers the consumer."""

from __future__ import annotations

import asyncio

from projectionist.core import db
from projectionist.core.settings import load
from projectionist.migrations import migrate
from projectionist.ops.bench.shop import ORDERS
from projectionist.runner.readmodels import ReadModels


async def prepare() -> None:
    """Do it in the schema of the settings."""
    postgres = load().postgres
    connection = await db.connect(postgres, application_name="bench prepare")
    await migrate(connection, postgres.schema)
    models = ReadModels(connection, postgres.schema)
    await models.apply([ORDERS], await models.plan([ORDERS]))
    await connection.close()


if __name__ == "__main__":
    asyncio.run(prepare())
